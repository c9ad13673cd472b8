"""The page that says what is served, written from the table that serves it: `make docs`."""

from __future__ import annotations

from pyk.handlers.table import ENDPOINTS
from pyk.wire.apis import UNDECLARED, ApiKey, advertised, api_name

HEAD = """\
# Compatibility

Every API of Apache Kafka 4.3, with the versions that its client listener advertises, and what pyk
makes of it. This page is written by `make docs` from the table that requests are dispatched by.

- **served**: answered as Kafka answers it.
- **declared**: its messages can be read and written in every version, but no broker answers yet.

| key | API | versions | pyk |
|---|---|---|---|
"""


def page() -> str:
    rows = [f"| {key} | {api_name(key)} | {versions(key)} | {state(key)} |\n" for key in ApiKey]
    return HEAD + "".join(rows)


def versions(key: ApiKey) -> str:
    return "" if key in UNDECLARED else str(advertised(key))


def state(key: ApiKey) -> str:
    if key in ENDPOINTS:
        return "**served**"
    return f"no: {UNDECLARED[key]}" if key in UNDECLARED else "declared"


if __name__ == "__main__":
    print(page(), end="")
