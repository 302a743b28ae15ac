"""Errors of providers are told apart by their real words."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.models.error_classification import classify, model_error, readable, retry_after
from zeus_runtime.models.errors import ModelError
from zeus_runtime.models.overflow import SAYINGS, find_overflow

MESSAGES = json.loads((Path(__file__).parent / "overflow_messages.json").read_text("utf-8"))
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "case", MESSAGES["overflow"], ids=lambda case: f"{case['provider']}:{case['text'][:30]}"
)
def test_a_real_overflow_is_recognised_with_the_counts_it_states(case: dict[str, Any]) -> None:
    error = classify(case["text"], status=case["status"], names=("BadRequestError",))
    assert error.kind == "context_overflow"
    assert (error.input_tokens, error.limit_tokens) == (case["input_tokens"], case["limit_tokens"])


@pytest.mark.parametrize("case", MESSAGES["other"], ids=lambda case: case["text"][:40])
def test_a_message_that_only_looks_like_an_overflow_is_none(case: dict[str, Any]) -> None:
    assert find_overflow(case["text"]) is None
    error = classify(case["text"], status=case["status"], names=("APIError",))
    assert error.kind == case["kind"]


def test_at_least_twelve_providers_are_covered_and_every_saying_is_exercised() -> None:
    assert len({case["provider"] for case in MESSAGES["overflow"]}) >= 12
    found = {overflow.provider for case in MESSAGES["overflow"] if (overflow := find_overflow(case["text"]))}
    assert {provider for provider, _, _ in SAYINGS} - found == {"any"}
    assert all(source for _, _, source in SAYINGS)


@given(st.text())
def test_any_text_is_classified_without_failing(text: str) -> None:
    assert classify(text).kind
    assert readable(text)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "bad_request"),
        (401, "auth"),
        (402, "billing"),
        (403, "auth"),
        (404, "bad_request"),
        (408, "timeout"),
        (413, "context_overflow"),
        (422, "bad_request"),
        (429, "rate_limit"),
        (500, "server"),
        (502, "server"),
        (503, "server"),
        (504, "timeout"),
        (529, "server"),
    ],
)
def test_the_status_decides_when_the_text_says_nothing(status: int, kind: str) -> None:
    assert classify("no", status=status).kind == kind


@pytest.mark.parametrize(
    ("text", "status", "body", "kind"),
    [
        ('{"error": {"code": "insufficient_quota", "message": "x"}}', 429, None, "billing"),
        ("x", 429, {"code": "insufficient_quota"}, "billing"),
        ("x", 429, {"error": {"type": "billing_error"}}, "billing"),
        ('{"type": "error", "error": {"type": "billing_error", "message": "x"}}', None, None, "billing"),
        ("Your credit balance is too low to access the Anthropic API.", 400, None, "billing"),
        # Gemini says so of a limited rate, and asks for another try.
        ("You exceeded your current quota", 429, {"status": "RESOURCE_EXHAUSTED"}, "rate_limit"),
        ("no user's text: insufficient_quota, credit balance is too low", 422, None, "bad_request"),
        (
            "x",
            400,
            {"error": {"type": ["billing_error"], "error": {"error": "billing_error"}}},
            "bad_request",
        ),
    ],
)
def test_an_account_without_credit_is_told_by_the_providers_code(
    text: str, status: int | None, body: Any, kind: str
) -> None:
    attributes = {"status_code": status, "body": body}
    given = {key: value for key, value in attributes.items() if value is not None}
    error = model_error(raised("APIStatusError", text=text, **given))
    assert error.kind == kind
    assert error.exit_code == 1


def test_a_refused_credential_is_exit_4_and_other_failures_exit_1() -> None:
    assert classify("no", status=401).exit_code == 4
    assert classify("no", status=500).exit_code == 1


def raised(name: str, *bases: str, **attributes: Any) -> Exception:
    kind: type[Exception] = Exception
    for base in (*reversed(bases), name):
        kind = type(base, (kind,), {})
    error = kind(attributes.pop("text", "no"))
    for key, value in attributes.items():
        setattr(error, key, value)
    return error


def test_a_lost_connection_is_a_network_error_though_litellm_says_500() -> None:
    error = model_error(raised("APIConnectionError", "APIError", status_code=500))
    assert (error.kind, error.status) == ("network", 500)


def test_litellms_overflow_class_counts_unless_the_text_speaks_of_a_rate() -> None:
    assert model_error(raised("ContextWindowExceededError", "BadRequestError")).kind == "context_overflow"
    limited = raised(
        "ContextWindowExceededError", "BadRequestError", text="too many requests", status_code=400
    )
    assert model_error(limited).kind == "rate_limit"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), "timeout"),
        (ConnectionResetError("reset"), "network"),
        (raised("ReadTimeout", "TimeoutException", "TransportError"), "timeout"),
        (raised("RemoteProtocolError", "TransportError"), "network"),
        (raised("MidStreamFallbackError", "ServiceUnavailableError", status_code=503), "server"),
        (raised("APIError", text='{"type":"overloaded_error","message":"Overloaded"}'), "server"),
        (raised("Odd", text="invalid x-api-key"), "auth"),
        (raised("Odd"), "server"),
    ],
)
def test_exceptions_of_any_library_are_told_by_their_names(error: Exception, kind: str) -> None:
    assert model_error(error).kind == kind


def test_the_exception_behind_litellms_wrapper_is_what_counts() -> None:
    inner = raised("BadRequestError", text="prompt is too long: 9 tokens > 8 maximum", status_code=400)
    error = model_error(raised("MidStreamFallbackError", original_exception=inner, status_code=503))
    assert (error.kind, error.input_tokens, error.limit_tokens) == ("context_overflow", 9, 8)


def test_an_overflow_told_only_in_the_body_is_found() -> None:
    body = {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}
    assert model_error(raised("BadRequestError", status_code=400, body=body)).input_tokens == 9


def test_a_model_error_stays_what_it_is() -> None:
    error = ModelError("x", kind="divergence")
    assert model_error(error) is error


@pytest.mark.parametrize(
    ("headers", "text", "seconds"),
    [
        ({"Retry-After": "3"}, "", 3.0),
        ({"retry-after": "0.5"}, "", 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, "", 0.25),
        ({"retry-after": "Fri, 20 Nov 2026 12:00:07 GMT"}, "", 7.0),
        ({"retry-after": "Fri, 20 Nov 2026 11:00:00 GMT"}, "", 0.0),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "-1"}, "", None),
        ({}, '"retryDelay": "17s"', 17.0),
        ({}, "Please try again in 1.242s.", 1.242),
        ({}, "Please try again in 6m0s.", 360.0),
        ({}, "try again in 20ms", 0.02),
        ({}, "try again in 1h2m3s", 3723.0),
        ({}, "Please try again in 1h2m3.5s.", 3723.5),
        ({}, "try again in 2h", 7200.0),
        ({}, "try again in 7m", 420.0),
        ({}, "try again in 1m500ms", 60.5),
        ({}, '{"retryDelay":"1.5s"}', 1.5),
        ({}, "try again in 5 minutes", None),
        ({}, "try again in 5mins", None),
        ({}, "try again later", None),
    ],
)
def test_the_wait_a_provider_asks_for_is_read(
    headers: dict[str, str], text: str, seconds: float | None
) -> None:
    assert retry_after(headers, text, NOON) == seconds


def test_headers_are_found_on_the_response() -> None:
    class Response:
        headers = {"Retry-After": "4"}  # noqa: RUF012 - stands for a library's object

    assert (
        model_error(raised("RateLimitError", status_code=429, response=Response())).retry_after_seconds == 4
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("litellm.BadRequestError: OpenAIException - no such model", "no such model"),
        ('litellm.APIError: XaiException - {"code":"x","error":"bad tool"}', "bad tool"),
        ('{"error":{"message":"two\\n lines"}}', "two lines"),
        ("{broken", "{broken"),
        ("", "no message"),
    ],
)
def test_the_message_shown_is_the_providers_own_sentence(text: str, said: str) -> None:
    assert readable(text) == said


def test_a_long_body_is_cut() -> None:
    assert len(readable("x" * 100_000)) < 2_100


def test_what_a_provider_said_stays_whole_beside_the_cut_message() -> None:
    body = "word " * 1_000 + "end"
    error = classify(f"litellm.BadRequestError: OpenAIException - {body}", status=400)
    assert error.message.endswith("… (5,003 characters)")
    assert (error.whole, error.adding("more").whole) == (body, body)
    assert classify("short", status=400).whole == ""
    assert classify("x" * 200_000, status=400).whole.endswith("(200,000 characters)")
