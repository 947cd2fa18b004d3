package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/posthorn/posthorn/client"
)

// exampleServer stands for a running Posthorn.
func exampleServer(answer string, status int) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
}

func ExampleClient_SendEvent() {
	server := exampleServer(`{"id":"order-1-paid","deliveries":3}`, http.StatusAccepted)
	defer server.Close()

	c := &client.Client{BaseURL: server.URL, Key: "phk_…"}
	accepted, err := c.SendEvent(context.Background(), client.NewEvent{
		ID:   "order-1-paid", // makes it safe to send again
		Type: "order.paid",
		Data: []byte(`{"order":1,"total":"49.50"}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(accepted.ID, "goes to", accepted.Deliveries, "endpoints")
	// Output: order-1-paid goes to 3 endpoints
}

func ExampleError() {
	server := exampleServer(`{"status":404,"code":"not_found","detail":"There is no such endpoint."}`, http.StatusNotFound)
	defer server.Close()

	c := &client.Client{BaseURL: server.URL, Key: "phk_…"}
	_, err := c.GetEndpoint(context.Background(), "ep_missing")
	var refused *client.Error
	if errors.As(err, &refused) && errors.Is(err, client.CodeNotFound) {
		fmt.Println(refused.Status, refused.Detail)
	}
	// Output: 404 There is no such endpoint.
}

func ExampleClient_AllDeliveries() {
	server := exampleServer(`{"data":[{"id":"dlv_1","status":"failed","failure_kind":"timeout"}],"next":null}`, http.StatusOK)
	defer server.Close()

	c := &client.Client{BaseURL: server.URL, Key: "phk_…"}
	failed := client.DeliveryFilter{Statuses: []client.DeliveryStatus{client.StatusFailed}}
	for delivery, err := range c.AllDeliveries(context.Background(), failed, client.PageOptions{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(delivery.ID, delivery.FailureKind)
	}
	// Output: dlv_1 timeout
}
