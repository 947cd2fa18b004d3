package demo

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// The event types of a link shortener, in the shapes that its customers know.
const (
	typeClick       = "click"
	typeConversion  = "conversion"
	typeLinkCreated = "link.created"
)

type clickData struct {
	LinkID          string  `json:"link_id"`
	ShortURL        string  `json:"short_url"`
	DestinationURL  string  `json:"destination_url"`
	ClickID         string  `json:"click_id"`
	IPPrefix        string  `json:"ip_prefix"`
	Country         string  `json:"country"`
	CityGeonameID   int     `json:"city_geoname_id"`
	UserAgentFamily string  `json:"user_agent_family"`
	DeviceType      string  `json:"device_type"`
	OSFamily        string  `json:"os_family"`
	Referrer        string  `json:"referrer"`
	UTMSource       string  `json:"utm_source"`
	UTMMedium       string  `json:"utm_medium"`
	UTMCampaign     string  `json:"utm_campaign"`
	UTMTerm         *string `json:"utm_term"`
	UTMContent      *string `json:"utm_content"`
}

type conversionData struct {
	ClickID                  string             `json:"click_id"`
	LinkID                   string             `json:"link_id"`
	ConversionID             string             `json:"conversion_id"`
	Value                    json.Number        `json:"value"`
	Currency                 string             `json:"currency"`
	EventName                string             `json:"event_name"`
	ProductID                string             `json:"product_id"`
	Metadata                 conversionMetadata `json:"metadata"`
	AttributionWindowMinutes int                `json:"attribution_window_minutes"`
	ForwardedTo              []string           `json:"forwarded_to"`
}

type conversionMetadata struct {
	OrderID       string `json:"order_id"`
	IsNewCustomer bool   `json:"is_new_customer"`
}

type linkCreatedData struct {
	Link linkData `json:"link"`
}

type linkData struct {
	ID             string   `json:"id"`
	Slug           string   `json:"slug"`
	ShortURL       string   `json:"short_url"`
	DestinationURL string   `json:"destination_url"`
	Domain         string   `json:"domain"`
	Tags           []string `json:"tags"`
	CreatedAt      string   `json:"created_at"`
	CreatedBy      string   `json:"created_by"`
}

// generator makes events: a link, then clicks on it, then a conversion.
type generator struct {
	random *rand.Rand
	count  int
	linkID string
	slug   string
	click  string
}

const (
	domain      = "go.example"
	destination = "https://shop.example.com/spring"
)

// next makes an event that happened at now.
func (g *generator) next(now time.Time) (eventType string, data json.RawMessage, err error) {
	step := g.count % 5
	g.count++
	var v any
	switch step {
	case 0:
		g.linkID, g.slug = g.id("lnk_"), g.text(6)
		eventType, v = typeLinkCreated, g.linkCreated(now)
	case 4:
		eventType, v = typeConversion, g.conversion()
	default:
		g.click = g.id("clk_")
		eventType, v = typeClick, g.clickOn()
	}
	data, err = json.Marshal(v)
	if err != nil {
		return "", nil, fmt.Errorf("encode a %s: %w", eventType, err)
	}
	return eventType, data, nil
}

func (g *generator) linkCreated(now time.Time) linkCreatedData {
	return linkCreatedData{linkData{
		ID: g.linkID, Slug: g.slug, ShortURL: "https://" + domain + "/" + g.slug, DestinationURL: destination, Domain: domain,
		Tags: []string{"spring-2026", "newsletter"}, CreatedAt: now.UTC().Format("2006-01-02T15:04:05.000Z07:00"), CreatedBy: "usr_42",
	}}
}

func (g *generator) clickOn() clickData {
	return clickData{
		LinkID: g.linkID, ShortURL: "https://" + domain + "/" + g.slug, DestinationURL: destination, ClickID: g.click,
		IPPrefix: "203.0.113.0/24", Country: pick(g, "DE", "JP", "KR", "US"), CityGeonameID: 2_950_159,
		UserAgentFamily: "Chrome 124", DeviceType: pick(g, "mobile", "desktop"), OSFamily: pick(g, "iOS 17.5", "Android 15", "Windows 11"),
		Referrer: "https://www.example.org", UTMSource: "newsletter", UTMMedium: "email", UTMCampaign: "spring-2026",
	}
}

func (g *generator) conversion() conversionData {
	return conversionData{
		ClickID: g.click, LinkID: g.linkID, ConversionID: g.id("cnv_"),
		Value: json.Number(fmt.Sprintf("%d.%02d", 1+g.random.IntN(99), g.random.IntN(100))), Currency: "EUR", EventName: "purchase", ProductID: "sku_42",
		Metadata:                 conversionMetadata{OrderID: fmt.Sprintf("ord_%d", 10_000+g.count), IsNewCustomer: g.random.IntN(2) == 0},
		AttributionWindowMinutes: 1 + g.random.IntN(30), ForwardedTo: []string{"meta_capi", "ga4_mp"},
	}
}

func (g *generator) id(prefix string) string { return prefix + g.text(21) }

func (g *generator) text(n int) string {
	const letters = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	out := make([]byte, n)
	for i := range out {
		out[i] = letters[g.random.IntN(len(letters))]
	}
	return string(out)
}

func pick(g *generator, from ...string) string { return from[g.random.IntN(len(from))] }
