# Fusebox. "make help" lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
DEMO_FLAGS ?=
CHAOS_FLAGS ?= --runs 3 --for 3m --seed 1 --report -

# Without paths what was compiled in one clone serves the next.
export GOFLAGS := $(GOFLAGS) -trimpath

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: demo
demo: .needs-demo build ## everything on this machine with simulated providers; prints a URL and a sign-in
	bin/fusebox demo $(DEMO_FLAGS)

.PHONY: test
test: .needs-test assets ## all tests: unit, property, real Postgres and Redis, processes, browser; with -race
	go test -race -vet=off -count=1 -timeout 20m ./...

.PHONY: chaos
chaos: .needs-chaos build ## the whole system under faults: three seeds, three minutes each, then audited; JSON report
	bin/fusebox chaos $(CHAOS_FLAGS)

.PHONY: build
build: assets ## bin/fusebox
	go build -ldflags '$(LDFLAGS)' -o bin/fusebox ./cmd/fusebox

.PHONY: dev
dev: .needs-demo generate build ## rebuild and run the demo with debug logs on 127.0.0.1:8080
	FUSEBOX_LOG_LEVEL=debug bin/fusebox demo --listen 127.0.0.1:8080 $(DEMO_FLAGS)

.PHONY: lint
lint: assets ## gofmt, vet, staticcheck, import rules, generated code up to date, file sizes
	.ci/lint

.PHONY: generate
generate: ## templ code from .templ files
	go tool templ fmt views
	go tool templ generate -path .

.PHONY: assets
assets: static/dist/.built ## browser libraries from npm into static/dist
static/dist/.built: static/package.json static/build.sh
	.ci/setup npm
	static/build.sh
	@touch $@

.PHONY: screenshots
screenshots: .needs-test build ## pictures of every screen, light and dark, 1280 and 360 px, into screenshots/: the demo's, and in every/ each page with hostile rows
	FUSEBOX_TEST_SCREENSHOTS=$(CURDIR)/screenshots go test -count=1 -run TestScreenshots ./cmd/fusebox/
	FUSEBOX_TEST_SCREENSHOTS=$(CURDIR)/screenshots/every go test -count=1 -run 'TestBrowserPagesAre|TestPictures|TestBrowserA|TestBrowserBulk|TestBrowserPayment' ./web

.PHONY: picture
picture: screenshots ## renew the README's picture of the overview
	mkdir -p .github
	cp screenshots/overview-light-1280.png .github/overview.png

.PHONY: clean
clean: ## remove what was built
	rm -rf bin static/dist/* static/node_modules screenshots

.PHONY: .needs-demo .needs-test .needs-chaos
.needs-demo:
	@.ci/setup go postgres npm
.needs-chaos:
	@.ci/setup go postgres redis npm
.needs-test:
	@.ci/setup go postgres redis chromium npm
