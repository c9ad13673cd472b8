# One-word verbs. Each sets up what it needs, in .venv and .cache, and says what it cannot find.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
# A file to a core, in the order of `conftest.py`.
PARALLEL := --numprocesses auto --dist loadfile --no-loadscope-reorder
ARGS ?=
SPARK_VERSION ?= 4.0.0
SPARK := .cache/spark/$(SPARK_VERSION)

.PHONY: help run test check format compat clients groups sample search fuzz crash faults kill hostile manifests docs bench spark sparktest clean adversary copy queue queues transactions
.DEFAULT_GOAL := help

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(STAMP)  ## Start a broker on localhost:9092 (ARGS="--port 0" and so on)
	@$(BIN)/pyk serve $(ARGS)

test: $(STAMP)  ## Run the tests, a file to a core; needs nothing but Python
	$(PYTEST) $(PARALLEL) $(ARGS)

check: $(STAMP)  ## Lint, types and import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)  ## Put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

compat: $(STAMP) .need-java .need-mvn  ## Judge the codec and the logs by Apache Kafka 4.3.1; needs Java 17 and Maven
	$(PYTEST) compat_tests -m 'not clients and not groups and not transactions and not queues' $(PARALLEL) $(ARGS)

clients: $(STAMP) .need-java .need-mvn .need-kcat .need-go .need-node .need-npm  ## Run docs/clients.md, program by program, and groups, queues and transactions of Go's and Node's clients; needs Java, Maven, kcat, Go, Node
	$(PYTEST) compat_tests/pages $(ARGS)
	$(PYTEST) compat_tests/groups -m 'clients and not groups' $(ARGS)
	$(PYTEST) compat_tests/transactions -m 'clients and not transactions' $(ARGS)
	$(PYTEST) compat_tests/queues -m 'clients and not queues' $(ARGS)

groups: $(STAMP) .need-java .need-mvn .need-go .need-node .need-npm  ## Groups of every client, with pyk and with Apache Kafka; needs Java, Maven, Go, Node
	$(PYTEST) compat_tests/groups $(ARGS)

transactions: $(STAMP) .need-java .need-mvn .need-go  ## Transactions of every client, with pyk and with Apache Kafka; needs Java, Maven, Go
	$(PYTEST) compat_tests/transactions $(ARGS)
	$(PYTEST) compat_tests/clients/test_transactions_tool.py compat_tests/clients/test_java_copier.py $(ARGS)
	$(PYTEST) compat_tests/adversary $(ARGS)

queues: $(STAMP) .need-java .need-mvn .need-go  ## Share groups of every client, with pyk and with Apache Kafka; needs Java, Maven, Go
	$(PYTEST) compat_tests/queues $(ARGS)

sample: $(STAMP)  ## A project that tests with pyk's wheel, in an environment of its own
	$(BIN)/python examples/try_it.py

search: $(STAMP)  ## Tests of Hypothesis with new seeds, for ten minutes (ARGS="--minutes 60")
	$(BIN)/python -m tests.search $(PARALLEL) $(ARGS)

fuzz: $(STAMP)  ## A million mutated frames: worst decode time and peak memory
	$(BIN)/python -m tests.wire.fuzz $(ARGS)

crash: $(STAMP)  ## A hundred thousand crashes of data and metadata on a simulated disk
	$(BIN)/python -m tests.log.crashes $(ARGS)
	$(BIN)/python -m tests.metadata.crashes $(ARGS)

faults: $(STAMP)  ## Each file operation of a broker under load fails once; ARGS=--flips: bits of files at rest
	$(BIN)/python -m tests.faults.campaign $(ARGS)

kill: $(STAMP)  ## Kill a process that writes to a log, some hundreds of times
	$(BIN)/python -m tests.log.killed_writer $(ARGS)

adversary: $(STAMP)  ## Transactions in a network that delivers requests too late: 300 histories of each version
	$(BIN)/python -m tests.adversary.history $(ARGS)

copy: $(STAMP)  ## A million records copied in transactions while broker and copiers are killed
	$(BIN)/python -m tests.clients.copying.run $(ARGS)

queue: $(STAMP)  ## A queue worked through while its workers die over records, and all are killed
	$(BIN)/python -m tests.clients.queueing.run $(ARGS)
	$(BIN)/python -m tests.clients.queueing.run --wire $(ARGS)

hostile: $(STAMP)  ## Hostile clients, 10,000 idle ones, and a good one that must not notice
	$(BIN)/python -m tests.server.hostile
	$(BIN)/python -m tests.server.wide_requests
	$(BIN)/python -m tests.server.wide_groups

manifests: $(STAMP)  ## Judge what is under deploy/: Docker, compose, Kubernetes, systemd, Prometheus
	$(BIN)/python -m pip install --quiet --editable '.[deploy]'
	deploy/check $(CURDIR)/$(BIN)

docs: $(STAMP)  ## Write the pages that come from the code
	$(BIN)/python -m pyk.handlers.compatibility > docs/compatibility.md
	$(BIN)/python -m pyk.config.reference > docs/configuration.md

bench: $(STAMP)  ## Measure against the alternatives, in one run
	$(BIN)/python -m bench $(ARGS)

spark: $(SPARK)/.installed .need-java  ## The data pipeline on Spark, end to end, and its audit; needs Java 17
	$(SPARK)/bin/python -m spark_jobs.pipeline $(ARGS)

sparktest: $(SPARK)/.installed .need-java .need-mvn  ## Spark's Kafka source and sink, and ours (SPARK_VERSION=3.5.7, 4.0.0 or 4.2.0)
	$(SPARK)/bin/python -m pytest compat_tests/spark $(ARGS)

clean:  ## Remove what the other verbs made
	rm -rf $(VENV) .cache dist build bench/results .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "make: pyk needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	    { echo "make: no venv module; on Debian: apt install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

# Each version of Spark has an environment of its own: they do not mix, and take 400 MB.
$(SPARK)/.installed: pyproject.toml
	@test -x $(SPARK)/bin/python || $(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/python -m pip install --quiet --upgrade pip setuptools
	$(SPARK)/bin/python -m pip install --quiet 'pyspark==$(SPARK_VERSION)' --editable '.[test,spark,pipeline]'
	@touch $@

NEEDED_java := Java 17 or newer; on Debian: apt install openjdk-17-jdk-headless
NEEDED_mvn := Maven; on Debian: apt install maven
NEEDED_kcat := kcat; on Debian: apt install kcat
NEEDED_go := Go 1.21 or newer, which brings the version that a module asks for: https://go.dev/dl
NEEDED_node := Node 18 or newer; on Debian: apt install nodejs npm
NEEDED_npm := $(NEEDED_node)

.need-%:
	@command -v $* >/dev/null || \
	    { echo "make: '$*' is not there. This verb needs $(NEEDED_$*)" >&2; exit 1; }
