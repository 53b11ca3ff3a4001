# The only interface to the workspace: every target works from here and covers
# every module in go.work.
.DEFAULT_GOAL := help
SHELL := /bin/bash

# The same flags for building, testing and linting: then they share one build cache.
export GOFLAGS ?= -buildvcs=false
CACHE := $(or $(KUBEOPERA_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kubeopera)
BIN := $(CURDIR)/bin
MODULES = $(shell go list -m -f '{{.Dir}}')
GOLDEN := github.com/kubeopera/platform/shared/golden
# Packages whose tests import $(GOLDEN); others do not know the -update flag.
GOLDEN_PKGS = $(shell go list -f '{{$$p := .ImportPath}}{{range .TestImports}}{{if eq . "$(GOLDEN)"}}{{$$p}} {{end}}{{end}}{{range .XTestImports}}{{if eq . "$(GOLDEN)"}}{{$$p}} {{end}}{{end}}' work | tr ' ' '\n' | sort -u)
# Everything but the whole-platform tests, which run real binaries for minutes.
UNIT_PKGS = $(shell go list work | grep -v '/platform/e2e')
TEST_FLAGS ?= -timeout 20m
# Packages with tests that KUBEOPERA_SOAK makes longer.
SOAK_PKGS := ./sim/machine/... ./sim/aws ./shared/provisioner/... ./provisioner/internal/httpapi ./scaffolder/internal/httpapi ./e2e/crash
# The images as the Deployment and the Job name them, tags included.
SERVICE_IMAGE = $(shell sed -n 's/^ *image: *//p' provisioner/deploy/deployment.yaml)
RUNNER_IMAGE = $(shell sed -n 's/^\tterraformRunnerImage  *= "\(.*\)"/\1/p' provisioner/internal/kube/terraform_job.go)
SCAFFOLDER_IMAGE = $(shell sed -n 's/^ *image: *//p' scaffolder/deploy/deployment.yaml)
SCAFFOLD_RUNNER_IMAGE = $(shell sed -n 's/^\tscaffoldRunnerImage  *= "\(.*\)"/\1/p' scaffolder/internal/kube/scaffold_job.go)

.PHONY: help build test unit race lint fmt tidy generate golden standalone verify demo up e2e soak bench images control-plane kubeadm gitops ssh clean

help: ## Print this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build the services, the runner and the simulator into bin/
	@mkdir -p $(BIN)
	go build -o $(BIN)/ ./provisioner/cmd/... ./tfrunner/cmd/... ./scaffolder/cmd/... ./scaffoldrunner/cmd/... ./sim/cmd/...

demo: build gitops ## Provision a cluster in the simulator, show it, stop
	@$(BIN)/kubeopera-sim demo

up: build gitops ## Start the simulator, print addresses and a key, leave it running until Ctrl-C
	@$(BIN)/kubeopera-sim up

test: verify lint race e2e ## Run all that CI runs

unit: control-plane kubeadm gitops ssh ## Run the unit and integration tests
	KUBEBUILDER_ASSETS=$$(tools/control-plane) go test $(TEST_FLAGS) $(UNIT_PKGS)

race: control-plane kubeadm gitops ssh ## Run the unit and integration tests with the race detector
	@# Without GORACE each program sleeps for a second before it ends.
	GORACE=atexit_sleep_ms=0 KUBEBUILDER_ASSETS=$$(tools/control-plane) go test -race $(TEST_FLAGS) $(UNIT_PKGS)

e2e: build control-plane gitops ssh ## Run the whole-platform tests on the simulator
	KUBEBUILDER_ASSETS=$$(tools/control-plane) go test -count=1 -timeout 30m ./e2e/...

soak: build control-plane kubeadm gitops ssh ## Run the long, seeded, randomised versions of the fault tests (an hour or more)
	KUBEOPERA_SOAK=1 KUBEBUILDER_ASSETS=$$(tools/control-plane) go test -count=1 -p 1 -timeout 3h $(SOAK_PKGS)

bench: build control-plane gitops ## Measure what docs/benchmarks.md says, and print it
	KUBEBUILDER_ASSETS=$$(tools/control-plane) go test -count=1 -p 1 -timeout 1h -run '^$$' -bench . -benchtime 1x ./e2e/bench/...

control-plane: ## Make sure that the simulator's control plane binaries are in the cache
	@tools/control-plane >/dev/null

kubeadm: ## Make sure that the kubeadm which checks rendered configurations is in the cache
	@tools/build kubeadm >/dev/null

gitops: ## Make sure that the simulator's GitOps controllers are in the cache
	@for module in sealed-secrets flux-source flux-kustomize flux-helm; do tools/build $$module >/dev/null || exit; done

ssh: ## Make sure that the simulator's OpenSSH server is in the cache, and the Session Manager plugin that checks its fake
	@tools/openssh >/dev/null
	@tools/build session-manager-plugin >/dev/null

lint: ## Lint everything
	@tools/golangci-lint run $(addsuffix /...,$(MODULES))

fmt: ## Format everything
	@tools/golangci-lint fmt $(MODULES)
	@if command -v terraform >/dev/null; then terraform fmt -recursive modules; fi

tidy: ## Tidy every go.mod and go.work
	@for pass in 1 2; do \
		for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy) || exit; done; go work sync || exit; \
	done # the sync may lift versions, which the second pass takes up

generate: ## Regenerate the documents that are made from code: OpenAPI, state machine
	go test ./provisioner/internal/httpapi -run OpenAPI -update
	go test ./scaffolder/internal/httpapi -run OpenAPI -update
	go test ./shared/runs -run Diagram -update

golden: ## Rewrite golden files (review the diff like code)
	go test $(GOLDEN_PKGS) -update

standalone: ## Build each module without the workspace, as an image build does
	@for m in $(MODULES); do (cd $$m && GOWORK=off go build ./... && GOWORK=off go mod verify >/dev/null) || exit; done

verify: standalone ## Fail if formatting or go.mod files are not what the tools make of them
	@tools/golangci-lint fmt --diff $(MODULES)
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy -diff) || exit; done

images: ## Build the container images (needs docker)
	docker build -f provisioner/deploy/Dockerfile --build-arg VERSION=$(lastword $(subst :, ,$(SERVICE_IMAGE))) -t $(SERVICE_IMAGE) .
	docker build -f tfrunner/deploy/Dockerfile -t $(RUNNER_IMAGE) .
	docker build -f scaffolder/deploy/Dockerfile --build-arg VERSION=$(lastword $(subst :, ,$(SCAFFOLDER_IMAGE))) -t $(SCAFFOLDER_IMAGE) .
	docker build -f scaffoldrunner/deploy/Dockerfile -t $(SCAFFOLD_RUNNER_IMAGE) .

clean: ## Remove what building left in this folder
	rm -rf $(BIN) .sim
