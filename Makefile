# Everything that one does here by hand; CI runs the same in .ci/run.
# Needs Go and make. What else a target needs, it installs where it can.

.DEFAULT_GOAL := help
.PHONY: help build demo test lint fmt generate vuln fuzz bench-smoke readme crash interop ci clean

FOR ?=
# The tests that kill the real binary; all but the long one, behind the tag crash,
# are part of make test too.
KILLS = Kill|Survives|Durable|TakesOver

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/posthorn
	@go build -trimpath -o bin/posthorn ./cmd/posthorn

demo: build ## build, then run the demo: signed webhooks arrive, fail, are retried (FOR=20s ends it)
	@bin/posthorn demo $(if $(FOR),--for $(FOR))

test: ## run all tests with the race detector (installs a C compiler for it where it can)
	@scripts/test

lint: ## run the linters of .golangci.yml; the first run builds them (two minutes)
	@"$$(scripts/tool golangci-lint)" run ./...

fmt: ## format the code as lint wants it
	@"$$(scripts/tool golangci-lint)" fmt ./...

generate: ## write the generated documents and code again
	@go generate ./...

vuln: ## look for known vulnerabilities that the code reaches
	@scripts/vuln

fuzz: ## run every fuzz target for FUZZTIME (30s)
	@scripts/fuzz

bench-smoke: build ## run every benchmark once, and a small posthorn bench
	@scripts/bench-smoke

readme: ## run the commands of README.md
	@scripts/deps curl
	@go test -tags readme -count=1 -run '^TestReadme' ./internal/archtest

crash: ## kill -9 the real binary under load and count what is lost
	@go test -tags crash -count=1 -v -timeout 10m -run '$(KILLS)' ./internal/app

interop: ## official SDKs and schemathesis against the binary (packages of PyPI and npm)
	@interop/run

ci: ## what CI runs
	@.ci/run

clean: ## remove what builds leave here
	@rm -rf bin
