package storetest

import (
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func contractCases() []testCase {
	return []testCase{
		{name: "TestStore_Contracts_ARevisionBecomesCurrent", run: revisionBecomesCurrent},
		{name: "TestStore_Contracts_AdoptingTellsTheOlderOnes", run: adoptingTellsOlder},
		{name: "TestEngine_N2_AContractsChangeRaisesItsTenants", run: contractRaisesTenants},
		{name: "TestStore_Contracts_DeletedWhenUnused", run: contractDeletedWhenUnused},
	}
}

// put stores a revision and returns what was told.
func (f *fixture) put(name, revision string, adopt, created bool) []store.Change {
	f.Helper()
	told := f.heard.count()
	made, err := f.PutContract(f.ctx, store.ContractRevision{Name: name, Revision: revision, Text: "text of " + revision, CreatedAt: f.now}, adopt)
	f.ok(err)
	f.same("created", made, created)
	f.now = f.now.Add(time.Second)
	return f.heard.since(told)
}

// states are revisions with what is said of them, in the order given.
func states(all []store.ContractRevision) []string {
	said := []string{}
	for _, r := range all {
		s := r.Name + "/" + r.Revision
		if r.Current {
			s += " current"
		}
		if r.Follows != "" {
			s += " as " + r.Follows
		}
		said = append(said, s)
	}
	return said
}

func revisionBecomesCurrent(f *fixture) {
	at := f.now
	f.same("told", len(f.put("own", "r1", false, true)), 1)
	f.same("told of nothing new", len(f.put("own", "r1", false, false)), 0)
	change := f.put("own", "r2", false, false)[0]
	f.same("told", change.Contract, &store.ContractRevision{Name: "own", Revision: "r2", Text: "text of r2", Current: true, CreatedAt: at.Add(2 * time.Second)})
	f.put("other", "r1", false, true)
	f.put("own", "r1", false, false) // an older wording again
	f.restart()
	list, err := f.ListContractRevisions(f.ctx, "own")
	f.ok(err)
	f.same("revisions", states(list), []string{"own/r2", "own/r1 current"})
	f.same("first came in", list[1].CreatedAt, at)
	all, err := f.LoadContracts(f.ctx)
	f.ok(err)
	f.same("all", states(all), []string{"own/r2", "own/r1 current", "other/r1 current"})
	list, err = f.ListContractRevisions(f.ctx, "nothing")
	f.ok(err)
	f.same("none", len(list), 0)
}

// The current one is told first, so that there is one at any moment.
func adoptingTellsOlder(f *fixture) {
	f.put("own", "r1", false, true)
	f.put("own", "r2", false, false)
	f.put("own", "r3", false, false)
	var told []store.ContractRevision
	for _, c := range f.put("own", "r4", true, false) {
		told = append(told, *c.Contract)
	}
	f.same("told", states(told), []string{"own/r4 current", "own/r1 as r4", "own/r2 as r4", "own/r3 as r4"})
	f.same("told again", len(f.put("own", "r4", true, false)), 0)
	f.put("own", "r5", false, false)
	told = nil
	for _, c := range f.put("own", "r5", true, false) { // the current one, to be adopted after all
		told = append(told, *c.Contract)
	}
	f.same("told", states(told), []string{"own/r5 current", "own/r1 as r5", "own/r2 as r5", "own/r3 as r5", "own/r4 as r5"})
	f.put("own", "r2", false, false)
	f.restart()
	all, err := f.LoadContracts(f.ctx)
	f.ok(err)
	f.same("all", states(all), []string{"own/r1 as r5", "own/r3 as r5", "own/r4 as r5", "own/r5", "own/r2 current"})
}

func contractRaisesTenants(f *fixture) {
	for _, id := range []string{"t1", "t2", "t3"} {
		f.tenant(id)
		e := newEndpoint(id, "a", f.now)
		if id != "t3" {
			e.Contract = "own"
		}
		_, err := f.CreateEndpoint(f.ctx, e)
		f.ok(err)
	}
	f.ok(f.DeleteEndpoint(f.ctx, "t2", "a", false, f.now))
	before := map[string]int64{"t1": f.revision("t1"), "t2": f.revision("t2"), "t3": f.revision("t3")}
	stale := newEvent("t1", before["t1"], f.now)
	change := f.put("own", "r1", false, true)[0]
	f.same("told", change.Revisions, map[string]int64{"t1": before["t1"] + 1})
	for id, was := range before {
		if id == "t1" {
			was++
		}
		f.same("revision of "+id, f.revision(id), was)
	}
	results, err := f.Accept(f.ctx, []store.AcceptParams{stale})
	f.ok(err)
	f.fails(results[0].Err, store.ErrStale)
}

func contractDeletedWhenUnused(f *fixture) {
	f.fails(f.DeleteContract(f.ctx, "own", f.now), store.ErrNotFound)
	f.put("own", "r1", false, true)
	e := newEndpoint(webhook.DefaultTenant, "a", f.now)
	e.Contract = "own"
	_, err := f.CreateEndpoint(f.ctx, e)
	f.ok(err)
	f.fails(f.DeleteContract(f.ctx, "own", f.now), store.ErrNotEmpty)
	f.ok(f.DeleteEndpoint(f.ctx, webhook.DefaultTenant, "a", false, f.now))
	f.ok(f.CreateTenant(f.ctx, webhook.Tenant{ID: "t1", DefaultContract: "own", CreatedAt: f.now}))
	f.fails(f.DeleteContract(f.ctx, "own", f.now), store.ErrNotEmpty)
	f.ok(f.DeleteTenant(f.ctx, "t1"))
	told := f.heard.count()
	f.ok(f.DeleteContract(f.ctx, "own", f.now))
	changes := f.heard.since(told)
	if len(changes) != 1 || changes[0].Contract == nil || changes[0].Contract.Current || changes[0].Contract.Text == "" {
		f.Fatalf("told %+v", changes)
	}
	f.fails(f.DeleteContract(f.ctx, "own", f.now), store.ErrNotFound)
	list, err := f.ListContractRevisions(f.ctx, "own")
	f.ok(err)
	f.same("its revisions stay", states(list), []string{"own/r1"})
	f.put("own", "r1", false, true)
}
