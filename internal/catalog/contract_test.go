package catalog

import (
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Each of the ten failure kinds has a label, what happened and what to do, in
// every language and under every contract, and no two kinds share a label.
func TestContract_S6_EveryKindHasThreeTexts(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	for _, tag := range Languages() {
		for _, name := range contract.BuiltinNames() {
			agreed, texts := builtin(t, name), c.For(tag)
			labels := map[string]contract.FailureKind{}
			for _, k := range contract.FailureKinds() {
				label, what, remedy := texts.Kind(agreed, k)
				if label == "" || what == "" || remedy == "" || what == remedy {
					t.Errorf("%s, %s, %s: %q, %q, %q", tag, name, k, label, what, remedy)
				}
				if other, taken := labels[label]; taken {
					t.Errorf("%s, %s: %s and %s are both %q", tag, name, k, other, label)
				}
				labels[label] = k
			}
			_, what, _ := texts.Kind(agreed, contract.KindTimeout)
			if span := texts.Duration(agreed.Timeout.Std()); !strings.Contains(what, span) {
				t.Errorf("%s, %s: the time-out of %s is said as %q", tag, name, span, what)
			}
		}
	}
}

// A 410 is said to disable where it does, and the remedy then names the action.
func TestContract_S6_GoneSaysWhetherItDisables(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	for name, disables := range map[string]bool{"standard": true, "signals": true, "elido": false, "petify": false} {
		agreed := builtin(t, name)
		for _, tag := range Languages() {
			texts := c.For(tag)
			_, what, remedy := texts.Kind(agreed, contract.KindGone)
			_, plain, _ := texts.Kind(nil, contract.KindGone)
			if (what != plain) != disables {
				t.Errorf("%s, %s: a 410 disables (%t), and is said as %q", tag, name, disables, what)
			}
			if enable := texts.Action(agreed, ActionEnable); strings.Contains(remedy, enable) != disables {
				t.Errorf("%s, %s: a 410 disables (%t); the remedy is %q, the action %q", tag, name, disables, remedy, enable)
			}
		}
	}
}

// Each status has a label and a meaning; what failed and dead mean hangs on how
// the contract ends.
func TestContract_S7_EveryStatusHasALabelAndAMeaning(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	for _, tag := range Languages() {
		texts := c.For(tag)
		for _, name := range contract.BuiltinNames() {
			agreed := builtin(t, name)
			labels := map[string]contract.Status{}
			for _, s := range contract.Statuses() {
				label, meaning := texts.Status(agreed, s)
				if label == "" || meaning == "" || label == meaning {
					t.Errorf("%s, %s, %s: %q, %q", tag, name, s, label, meaning)
				}
				if agreed.Shown(s) != s {
					continue
				}
				if other, taken := labels[label]; taken {
					t.Errorf("%s, %s: %s and %s are both %q", tag, name, s, other, label)
				}
				labels[label] = s
			}
		}
		// A user's contracts: the words follow the promise, not the name.
		five := altered(t, "signals", func(c *contract.Contract) { c.Schedule.Waits = c.Schedule.Waits[:5] })
		if _, meaning := texts.Status(five, contract.StatusDead); !strings.Contains(meaning, "5") {
			t.Errorf("%s: dead after five attempts is %q", tag, meaning)
		}
		_, offSchedule := texts.Status(five, contract.StatusFailed)
		five.Exhausted.Status = contract.StatusFailed
		if _, exhausted := texts.Status(five, contract.StatusFailed); exhausted == offSchedule {
			t.Errorf("%s: failed means the same off the schedule and at its end: %q", tag, exhausted)
		}
		narrow := altered(t, contract.Standard, func(c *contract.Contract) {
			c.Success = []contract.StatusRange{{From: 200, To: 204}, {From: 206, To: 206}}
		})
		if _, meaning := texts.Status(narrow, contract.StatusDelivered); !strings.Contains(meaning, "200-204, 206") {
			t.Errorf("%s: delivered by some statuses is %q", tag, meaning)
		}
	}
}

// An endpoint that was stopped says so, with the contract's own span and operator.
func TestContract_S9_BannersOfDisabling(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	for _, name := range contract.BuiltinNames() {
		agreed := builtin(t, name)
		for _, tag := range Languages() {
			texts := c.For(tag)
			for _, r := range stateReasons() {
				if banner := texts.Banner(agreed, r); (banner != "") != hasBanner(r) {
					t.Errorf("%s, %s: the banner of %s is %q", name, tag, r, banner)
				}
			}
			if staff := texts.Banner(agreed, webhook.ReasonStaff); !strings.Contains(staff, agreed.Operator) {
				t.Errorf("%s, %s: the staff banner does not name %s: %q", name, tag, agreed.Operator, staff)
			}
		}
	}
	// The one number that stands in the words themselves, not in a parameter.
	if days := builtin(t, "signals").Disable.NoSuccessFor.Std() / (24 * time.Hour); days != 3 {
		t.Errorf("the banner says 3 days, the contract %d", days)
	}
	week := altered(t, "signals", func(c *contract.Contract) {
		c.Disable.NoSuccessFor, c.Operator = contract.Duration(7*24*time.Hour), "Acme"
	})
	for tag, want := range map[string][2]string{
		English: {
			"No delivery has succeeded for 7 days, so sending to this URL has been stopped. Mend the server, then enable again.",
			"This endpoint was stopped by the Acme team. Enable it again when you are ready.",
		},
		Japanese: {
			"7 日間一度も配信に成功しなかったため、この URL への送信を停止しました。サーバーを修正してから再度有効にしてください。",
			"このエンドポイントは Acme チームが停止しました。準備ができたら再度有効にしてください。",
		},
		Korean: {
			"7일 동안 한 번도 전달에 성공하지 못해 이 URL로의 전송을 중지했습니다. 서버를 수정한 뒤 다시 사용 설정하세요.",
			"Acme 팀이 이 Webhook을 중지했습니다. 준비가 되면 다시 사용 설정하세요.",
		},
	} {
		got := [2]string{c.For(tag).Banner(week, webhook.ReasonNoSuccess), c.For(tag).Banner(week, webhook.ReasonStaff)}
		if got != want {
			t.Errorf("%s:\n got %q\nwant %q", tag, got, want)
		}
	}
}

// Where a contract shows four statuses, a delivery under way reads as waiting.
func TestContract_P6_ShownStatuses(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	agreed := builtin(t, "petify")
	for _, tag := range Languages() {
		texts := c.For(tag)
		waiting, meaning := texts.Status(agreed, contract.StatusPending)
		if label, same := texts.Status(agreed, contract.StatusSending); label != waiting || same != meaning {
			t.Errorf("%s: sending is shown as %q, %q", tag, label, same)
		}
		if label, _ := texts.Status(builtin(t, contract.Standard), contract.StatusSending); label == waiting {
			t.Errorf("%s: sending is %q where it is shown", tag, label)
		}
	}
	korean := c.For("ko-KR")
	for status, want := range map[contract.Status]string{
		contract.StatusPending: "대기", contract.StatusDelivered: "전달됨", contract.StatusFailed: "실패", contract.StatusSkipped: "건너뜀",
	} {
		if label, _ := korean.Status(agreed, status); label != want {
			t.Errorf("%s is %q, want %q", status, label, want)
		}
	}
	if got := korean.Word(agreed, WordLog); got != "전송 로그" {
		t.Errorf("the log is %q", got)
	}
}

// The mark and the pause after failures in a row say the contract's own numbers.
func TestContract_E8_DegradedAndPaused(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	agreed := builtin(t, "elido")
	other := altered(t, "elido", func(c *contract.Contract) {
		c.Pause.After, c.Degrade.For = 20, contract.Duration(90*time.Minute)
	})
	for tag, want := range map[string][4]string{
		English: {
			"50 attempts in a row failed, so sending to this URL has been paused. Mend the server, then resume.",
			"Degraded: for 24 hours there are fewer retries.",
			"20 attempts in a row failed, so sending to this URL has been paused. Mend the server, then resume.",
			"Degraded: for 1 hour 30 minutes there are fewer retries.",
		},
		Japanese: {
			"50 回連続で失敗したため、この URL への送信を一時停止しました。サーバーを修正してから再開してください。",
			"低下（degraded）：24 時間、再試行回数が制限されます。",
			"20 回連続で失敗したため、この URL への送信を一時停止しました。サーバーを修正してから再開してください。",
			"低下：1 時間 30 分、再試行回数が制限されます。",
		},
		Korean: {
			"50회 연속으로 실패하여 이 URL로의 전송을 일시 중지했습니다. 서버를 수정한 뒤 다시 시작하세요.",
			"저하됨: 24시간 동안 재시도 횟수가 제한됩니다.",
			"20회 연속으로 실패하여 이 URL로의 전송을 일시 중지했습니다. 서버를 수정한 뒤 다시 시작하세요.",
			"저하됨: 1시간 30분 동안 재시도 횟수가 제한됩니다.",
		},
	} {
		texts := c.For(tag)
		var got [4]string
		got[0] = texts.Banner(agreed, webhook.ReasonFailuresInRow)
		_, got[1] = texts.Degraded(agreed)
		got[2] = texts.Banner(other, webhook.ReasonFailuresInRow)
		_, got[3] = texts.Degraded(other)
		if got != want {
			t.Errorf("%s:\n got %q\nwant %q", tag, got, want)
		}
		// The state of an endpoint whose contract was changed since.
		none := builtin(t, contract.Standard)
		if banner := texts.Banner(none, webhook.ReasonFailuresInRow); banner == "" || strings.ContainsAny(banner, "0123456789") {
			t.Errorf("%s: under a contract that never pauses the banner is %q", tag, banner)
		}
	}
}

// What each answer does is said as the contract has it (S4, E7).
func TestCatalog_AnswersAreSaidAsTheyAre(t *testing.T) {
	t.Parallel()
	texts := loaded(t).For(English)
	stops := func(stop ...contract.Stop) *contract.Contract {
		return altered(t, "elido", func(c *contract.Contract) { c.Stop = stop })
	}
	const bySchedule, stopped = "Retried by the schedule.", "Stops at once: no further attempt is made."
	for name, tt := range map[string]struct {
		under  *contract.Contract
		answer Answer
		want   [2]string
	}{
		"no contract":         {nil, AnswerGone, [2]string{"410 Gone", bySchedule}},
		"410 is a failure":    {stops(), AnswerGone, [2]string{"410 Gone", bySchedule}},
		"410 disables":        {builtin(t, contract.Standard), AnswerGone, [2]string{"410 Gone", "Stops at once: no further attempt is made, and the endpoint is disabled."}},
		"410 stops":           {stops(contract.Stop{On: contract.KindGone, Status: contract.StatusDead}), AnswerGone, [2]string{"410 Gone", stopped}},
		"a blocked URL stops": {builtin(t, contract.Standard), AnswerUnsafeURL, [2]string{"Blocked URL", stopped}},
		"a time-out stops": {stops(contract.Stop{On: contract.KindTimeout, Status: contract.StatusDead}), AnswerServerError,
			[2]string{"5xx, 408, 413, 429, time-out, network error", "Retried by the schedule; some of these stop the delivery at once."}},
		"Retry-After of any": {builtin(t, "elido"), AnswerRetryAfter,
			[2]string{"Any failed answer with Retry-After", "Compares the scheduled wait with Retry-After (at most 24 hours) and waits the longer. Retry-After never shortens a wait."}},
		"Retry-After of two": {altered(t, "signals", func(*contract.Contract) {}), AnswerRetryAfter,
			[2]string{"429, 503 with Retry-After", "Compares the scheduled wait with Retry-After (at most 1 hour) and waits the longer. Retry-After never shortens a wait."}},
		"Retry-After replaces": {altered(t, "elido", func(c *contract.Contract) { c.RetryAfter.Mode = "replace" }), AnswerRetryAfter,
			[2]string{"Any failed answer with Retry-After", "Waits as long as Retry-After says (at most 24 hours) in place of the scheduled wait."}},
		"Retry-After of none": {builtin(t, "petify"), AnswerRetryAfter, [2]string{"Retry-After", "Not taken into account."}},
		"success":             {builtin(t, "petify"), AnswerSuccess, [2]string{"2xx", "Delivered. Done."}},
	} {
		var got [2]string
		if got[0], got[1] = texts.Answer(tt.under, tt.answer); got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, tt.want)
		}
	}
	// The answer to a 410 quotes the banner that it leads to.
	for _, tag := range Languages() {
		texts, agreed := loaded(t).For(tag), builtin(t, "signals")
		if _, effect := texts.Answer(agreed, AnswerGone); !strings.Contains(effect, texts.Banner(agreed, webhook.ReasonGone)) {
			t.Errorf("%s: %q does not quote the banner", tag, effect)
		}
	}
}

// While an endpoint is off, what it misses is held or skipped; both are said (P5).
func TestCatalog_OffIsSaidAsItIs(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	for _, tag := range Languages() {
		holds, skips := builtin(t, contract.Standard), altered(t, "petify", func(*contract.Contract) {})
		for _, key := range []string{"state.paused.meaning", "state.disabled.meaning", "status.pending.meaning", "status.skipped.meaning"} {
			if held, skipped := say(t, c.For(tag), holds, key), say(t, c.For(tag), skips, key); held == skipped {
				t.Errorf("%s: %s is the same held and skipped: %q", tag, key, held)
			}
		}
	}
}
