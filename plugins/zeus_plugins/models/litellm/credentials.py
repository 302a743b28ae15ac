"""Finds a provider's key in the YAML, the process environment, or the ``.env`` next to the YAML."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeus_plugins.models.litellm.key_variables import variables_of, variables_taken, written_provider
from zeus_plugins.models.litellm.options import Options
from zeus_plugins.models.litellm.own_keys import (
    KeyAndAddress,
    may_go_without_key,
    provider_of,
    reach,
)
from zeus_runtime.plugin import MissingError
from zeus_runtime.plugin.model import ModelError

if TYPE_CHECKING:
    from zeus_plugins.models.litellm.native.servers import ModelServer

_ARGUMENTS: Final = (
    ("_API_KEY", "api_key"),
    ("_API_TOKEN", "api_key"),
    ("_API_BASE", "api_base"),
    ("_BASE_URL", "api_base"),
    ("_API_VERSION", "api_version"),
    ("AWS_ACCESS_KEY_ID", "aws_access_key_id"),
    ("AWS_SECRET_ACCESS_KEY", "aws_secret_access_key"),
    ("AWS_SESSION_TOKEN", "aws_session_token"),
    ("AWS_REGION_NAME", "aws_region_name"),
    ("VERTEXAI_PROJECT", "vertex_project"),
    ("VERTEXAI_LOCATION", "vertex_location"),
)
"""The end of a variable's name to the equivalent argument of litellm's completion."""

_KEYS: Final = ("_API_KEY", "_API_TOKEN")
"""The ends of required variables' names; cloud accounts have other ways to authenticate."""

_BESIDE_THE_KEY: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "azure": (("AZURE_API_BASE", "api_base"), ("AZURE_API_VERSION", "api_version")),
    "azure_ai": (("AZURE_AI_API_BASE", "api_base"),),
}
"""Provider to further required variables, each with the equivalent argument."""

_PACKAGES: Final[Mapping[str, tuple[str, str]]] = {
    "bedrock": ("boto3", "bedrock"),
    "bedrock_converse": ("boto3", "bedrock"),
    "sagemaker": ("boto3", "bedrock"),
    "sagemaker_chat": ("boto3", "bedrock"),
    "vertex_ai": ("google.auth", "vertex"),
    "vertex_ai_beta": ("google.auth", "vertex"),
}
"""Provider to the package that litellm imports for it without requiring it, and our extra that installs it."""

_AZURE_SIGN_INS: Final = frozenset(
    {"azure_ad_token", "azure_ad_token_provider", "azure_username", "client_id", "tenant_id"}
)

_SIGN_INS: Final[Mapping[str, Set[str]]] = {
    "anthropic": frozenset(
        {"anthropic_identity_source", "anthropic_identity_token", "anthropic_identity_token_file"}
    ),
    "azure": _AZURE_SIGN_INS,
    "azure_ai": _AZURE_SIGN_INS,
    "openai": frozenset({"openai_identity_provider_id", "openai_identity_token_file"}),
    "xai": frozenset({"use_xai_oauth"}),
}
"""Provider to the parameters of ``extra`` with which it needs no key."""

_UNUSED_KEY: Final = "unused"
"""A placeholder key for servers that need none: litellm's OpenAI client refuses to start without a key."""


class OwnKey(NamedTuple):
    """The key without which litellm is not called.

    Args:
        variable: the one that usually holds it.
        find: returns the key in the process environment, for the address in the YAML.
    """

    variable: str
    find: Callable[[str | None], KeyAndAddress]


class KnownProvider(NamedTuple):
    """A model's provider.

    Args:
        name: litellm's name of it, with the address of the requests in mind.
        listed_as: its name without that address, which decides about its variables.
        missing: the variables that the provider needs and that are not set, for a key and an address that are given.
        own: its key, if litellm without one would send another provider's.
    """

    name: str
    listed_as: str
    missing: Callable[[str | None, str | None], Sequence[str]]
    own: OwnKey | None = None


def litellms_provider(litellm: Any, options: Options) -> KnownProvider:
    """Return the model's provider as litellm knows it.

    Raises:
        ModelError: (bad_request) litellm knows no provider for this name, so it cannot send the request.
    """

    def missing(key: str | None, base: str | None) -> Sequence[str]:
        checked = litellm.validate_environment(options.model, api_key=key, api_base=base)
        return list(checked["missing_keys"])

    name = _known_provider(litellm, options)
    own = None
    if not may_go_without_key(litellm, name, options.model, "chat"):
        own = OwnKey(variables_of(name)[0], lambda base: reach(litellm, options.model, base))
    return KnownProvider(name, provider_of(litellm, options.model), missing, own)


def servers_provider(server: ModelServer, environ: Mapping[str, str]) -> KnownProvider:
    """Return the provider behind a server, known without litellm."""

    def missing(key: str | None, _base: str | None) -> Sequence[str]:
        is_set = key or not server.needs_key or key_of(server, environ)
        return [] if is_set else server.keys[:1]

    return KnownProvider(server.provider, server.provider, missing)


def key_of(server: ModelServer, environ: Mapping[str, str]) -> str:
    """Return the server's key from its variables; empty if none is set."""
    return next((value for name in server.keys if (value := environ.get(name))), "")


def credentials(
    provider: KnownProvider, options: Options, environ: Mapping[str, str], dotenv: Set[str] = frozenset()
) -> dict[str, Any]:
    """Return the arguments of litellm's completion with the credentials and the address.

    Args:
        provider: the model's.
        options: the options from the YAML; they take precedence.
        environ: the process environment, with ``.env`` for names that it lacks. litellm reads the process environment
            itself, so values from ``.env`` are passed as arguments.
        dotenv: the names that are only in ``.env``.

    Raises:
        ModelError: (auth) a key or another variable is missing, and all are named; (bad_request) ``.env`` sets a host
            or an account.
        MissingError: a package that the provider needs is not installed.
    """
    _require_package(provider.name, options.model)
    if options.api_base is not None:
        _require_asked(provider.name, options, environ)
    found = _from_dotenv(provider, options, environ, dotenv)
    if options.api_key is not None:
        found["api_key"] = options.api_key.reveal().strip()
    if options.api_base is not None:
        found["api_base"] = options.api_base
    if provider.own is not None:
        key, base = provider.own.find(found.get("api_base"))
        if not base:
            raise ModelError(
                f"the model {options.model!r} needs the address of its server",
                kind="bad_request",
                remedy="Write it in the YAML: model.litellm.api_base",
            )
        if key or (key := environ.get(provider.own.variable, "").strip()):
            found.setdefault("api_key", key)
    unset = provider.missing(found.get("api_key"), found.get("api_base"))
    keys = [name for name in _variables(provider) if name.endswith(_KEYS)]
    # litellm accepts an empty variable as a key.
    empty = [name for name in keys if environ.get(name) == ""] if not any(map(environ.get, keys)) else []
    # Of Azure's variables litellm lists all, even if only one is not set.
    missing = [name for name in unset if name.endswith(_KEYS) and not environ.get(name)] or empty
    if provider.own is not None and not missing:
        missing = [provider.own.variable]
    if "api_key" in found or _SIGN_INS.get(provider.name, frozenset()) & set(options.extra):
        missing = []
    beside = [
        (name, argument)
        for name, argument in _BESIDE_THE_KEY.get(provider.name, ())
        if not environ.get(name) and argument not in found and argument not in options.extra
    ]
    if beside:
        raise _all_missing(options.model, missing, beside)
    if not missing:
        return found
    if "api_base" in found and provider.name not in _BESIDE_THE_KEY:
        return {**found, "api_key": _UNUSED_KEY}
    raise ModelError(
        f"the model {options.model!r} needs a key, and {' or '.join(missing)} is {'empty' if empty else 'not set'}",
        kind="auth",
        remedy=f"Set {missing[0]} in the environment or in .env, or model.litellm.api_key in the YAML",
    )


def _require_asked(provider: str, options: Options, environ: Mapping[str, str]) -> None:
    """Require that only keys which the user was asked about go to the address in the YAML.

    litellm finds some providers by lists of models that a plan does not read.

    Raises:
        ModelError: (bad_request) another key of the environment would go there.
    """
    has_key = options.api_key is not None
    asked = variables_taken(written_provider(options.model), has_key=has_key)
    for name in variables_taken(provider, has_key=has_key):
        is_there = environ.get(name) or os.environ.get(name) or " " in name
        if name not in asked and is_there:
            raise ModelError(
                f"the model {options.model!r} is one of {provider}, so your {name} would go to the address in"
                " model.litellm.api_base",
                kind="bad_request",
                remedy=f"Write the provider before the name, such as {provider}/NAME, or model.litellm.api_key in"
                " the YAML",
            )


def _all_missing(model: str, keys: Sequence[str], beside: Sequence[tuple[str, str]]) -> ModelError:
    """Return one error that names everything missing, for a provider that needs more than a key."""
    names = [*keys[:1], *(name for name, _ in beside)]
    options = [
        *(["model.litellm.api_key"] if keys else []),
        *(f"model.litellm.{'' if argument == 'api_base' else 'extra.'}{argument}" for _, argument in beside),
    ]
    return ModelError(
        f"the model {model!r} needs variables that are not set: {', '.join(names)}",
        kind="auth",
        remedy=f"Set {'them' if len(names) > 1 else 'it'} in the environment or in .env, or in the YAML:"
        f" {', '.join(options)}",
    )


def _known_provider(litellm: Any, options: Options) -> str:
    """Return the model's provider.

    Raises:
        ModelError: (bad_request) litellm knows no provider for this name, so it cannot send the request.
    """
    from openai import BadRequestError

    named = options.extra.get("custom_llm_provider")
    if isinstance(named, str):
        return named
    try:
        return str(litellm.get_llm_provider(options.model, api_base=options.api_base)[1])
    except BadRequestError:
        # No guess at the provider here: `unknown-model` already makes a better suggestion.
        name = options.model.replace(":", "/", 1) if ":" in options.model else "openai/gpt-5.2"
        raise ModelError(
            f"the model {options.model!r} names no provider that litellm knows",
            kind="bad_request",
            remedy=f"Write the provider before the name, such as {name};"
            " `zeus models list` shows the names, and a server of your own is openai/NAME with api_base",
        ) from None


def _require_package(provider: str, model: str) -> None:
    from importlib.util import find_spec

    package, extra = _PACKAGES.get(provider, ("", ""))
    try:
        # For a dotted name, `find_spec` imports the package above it.
        is_there = not package or find_spec(package) is not None
    except ModuleNotFoundError:  # the package that it is in
        is_there = False
    if not is_there:
        raise MissingError(
            f"the model {model!r} needs the package {package.replace('.', '-')}, which is not installed",
            remedy=f"pip install 'zeus-runtime[{extra}]'",
        )


def refused_key(provider: KnownProvider, options: Options, environ: Mapping[str, str]) -> str:
    """Return the remedy for a key that the provider refused; it names the key's source."""
    if options.api_key is not None:
        return "Check the key in model.litellm.api_key, and that it may use this model"
    given = [name for name in _variables(provider) if name.endswith(_KEYS) and environ.get(name)]
    if given:
        return f"Check the key in {' or '.join(given)}, and that it may use this model"
    unset = [name for name in provider.missing(None, None) if name.endswith(_KEYS)]
    if unset:
        return f"No key was sent: set {unset[0]} in the environment or in .env, or model.litellm.api_key in the YAML"
    return "Check the provider's credential, and that it may use this model"


def _from_dotenv(
    provider: KnownProvider, options: Options, environ: Mapping[str, str], dotenv: Set[str]
) -> dict[str, Any]:
    """Return the arguments that litellm does not read itself: from ``.env``, and with white space around them.

    As part of the project, ``.env`` may not decide which host gets the keys, nor in which of the user's accounts they
    work.

    Raises:
        ModelError: (bad_request) ``.env`` sets a host or an account that the YAML does not set.
    """
    found = {}
    for name in _variables(provider):
        # A variable of the process is left to litellm, which reads it itself, but with the newline of a mounted secret.
        process = os.environ.get(name)
        value = (process or environ.get(name) or "").strip()
        if not value or (process and process == process.strip()):
            continue
        for argument in (argument for end, argument in _ARGUMENTS if name.endswith(end)):
            said = argument in options.extra or (argument == "api_base" and options.api_base is not None)
            what = "host" if _names_machine(argument, value) else _account(argument, options)
            if not said and name in dotenv and what:
                where = "" if argument == "api_base" else "extra."
                raise ModelError(
                    f".env sets the {what} of the requests with {name}, which only the YAML may do",
                    kind="bad_request",
                    remedy=f"Write model.litellm.{where}{argument}: ${{{name}}} in the YAML, or set {name} in the"
                    " environment",
                )
            found[argument] = value
    return found


def _names_machine(argument: str, value: str) -> bool:
    """Whether a variable decides about the host: as an address, or as the last part of the host's name."""
    if argument in ("aws_region_name", "vertex_location"):
        return any(sign in value for sign in "/\\?#")
    return argument == "api_base"


def _account(argument: str, options: Options) -> str:
    """What a variable chooses of the user's accounts; empty where the YAML brings the credentials, or for none."""
    chooses = argument == "vertex_project" and "vertex_credentials" not in options.extra
    return "project" if chooses else ""


def _variables(provider: KnownProvider) -> list[str]:
    """Return the variables with credentials and addresses of the provider, sorted."""
    prefix = provider.listed_as.upper()
    own = {f"{prefix}{end}" for end, _ in _ARGUMENTS if end.startswith("_")}
    named = {
        "bedrock": {end for end, _ in _ARGUMENTS if end.startswith("AWS")},
        "sagemaker": {end for end, _ in _ARGUMENTS if end.startswith("AWS")},
        "vertex_ai": {end for end, _ in _ARGUMENTS if end.startswith("VERTEXAI")},
        "gemini": {"GOOGLE_API_KEY"},
        "together_ai": {"TOGETHERAI_API_KEY"},
        "perplexity": {"PERPLEXITYAI_API_KEY"},
    }.get(provider.listed_as, set())
    return sorted(own | named)
