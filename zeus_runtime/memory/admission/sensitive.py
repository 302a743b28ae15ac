"""Detect texts that must never be stored (secrets) and texts that must never be trusted (orders to a model).

A rule is reported by its name alone. No function here returns, raises or logs any part of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from zeus_runtime.errors import MissingError
from zeus_runtime.memory.admission.injection_patterns import INJECTIONS
from zeus_runtime.memory.admission.patterns import NamedPattern
from zeus_runtime.memory.admission.secret_patterns import CREDENTIALS, SECRETS
from zeus_runtime.memory.normalise import lowered


def secret_rule(text: str) -> str | None:
    """Return the name of the rule that finds a secret in ``text``, or None.

    Our patterns come first, because they are cheap, then those of detect-secrets (Yelp, Apache-2.0). Only its patterns
    are used: not its verification over the network, and not its ``pragma: allowlist secret``, with which any text could
    exempt itself.

    Args:
        text: normalised; an invisible character inside a secret would hide it.

    Raises:
        MissingError: detect-secrets is not installed.
    """
    return pattern_rule(text) or library_rule(text)


def pattern_rule(text: str) -> str | None:
    """The name of the first of our own rules that finds a secret, or None."""
    return _first(SECRETS, text)


def credential_rule(identifier: str) -> str | None:
    """Like ``secret_rule``, for texts from a program, in which digits are not numbers of cards or accounts."""
    return _first(CREDENTIALS, identifier) or library_rule(identifier)


def injection_rule(text: str) -> str | None:
    """Return the name of the rule that finds instructions to a model in ``text``, or None.

    Args:
        text: normalised.
    """
    return _first(INJECTIONS, text)


def _first(rules: Iterable[NamedPattern], text: str) -> str | None:
    low = lowered(text)
    return next((rule.name for rule in rules if rule.finds(text, low)), None)


def library_rule(text: str) -> str | None:
    """The name of the detector of detect-secrets that finds a secret, or None.

    Raises:
        MissingError: detect-secrets is not installed.
    """
    for name, analyse in _detectors():
        if any(True for _ in analyse(text)):
            return f"detect-secrets: {name}"
    return None


_Analyse = Callable[[str], Iterable[str]]
_DETECTORS: Final = (
    ("artifactory", "ArtifactoryDetector"),
    ("aws", "AWSKeyDetector"),
    ("azure_storage_key", "AzureStorageKeyDetector"),
    ("cloudant", "CloudantDetector"),
    ("discord", "DiscordBotTokenDetector"),
    ("github_token", "GitHubTokenDetector"),
    ("gitlab_token", "GitLabTokenDetector"),
    ("ibm_cloud_iam", "IbmCloudIamDetector"),
    ("ibm_cos_hmac", "IbmCosHmacDetector"),
    ("jwt", "JwtTokenDetector"),
    ("mailchimp", "MailchimpDetector"),
    ("npm", "NpmDetector"),
    ("openai", "OpenAIDetector"),
    ("private_key", "PrivateKeyDetector"),
    ("pypi_token", "PypiTokenDetector"),
    ("sendgrid", "SendGridDetector"),
    ("slack", "SlackDetector"),
    ("softlayer", "SoftlayerDetector"),
    ("square_oauth", "SquareOAuthDetector"),
    ("stripe", "StripeDetector"),
    ("telegram_token", "TelegramBotTokenDetector"),
    ("twilio", "TwilioKeyDetector"),
)
"""Module and class of each detector that goes by a known form. Left out are those made for source code, which take
prose for secrets: keywords, entropy of
quoted strings, public addresses, and the passwords in addresses that a rule of ours finds without the placeholders."""

_loaded: dict[str, _Analyse] = {}


def _detectors() -> Iterable[tuple[str, _Analyse]]:
    if not _loaded:
        from importlib import import_module

        try:
            for module, name in _DETECTORS:
                detector = getattr(import_module(f"detect_secrets.plugins.{module}"), name)()
                _loaded[module] = detector.analyze_string
        except ImportError as error:
            _loaded.clear()
            raise MissingError(
                "detect-secrets, which keeps secrets out of memory, cannot be imported",
                remedy="install it: pip install 'detect-secrets>=1.5'",
            ) from error
    return _loaded.items()
