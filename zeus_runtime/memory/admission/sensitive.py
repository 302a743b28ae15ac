"""What must never be kept, and what must never be believed: secrets, and texts that give orders to a model.

A rule is told by its name alone. No function here returns, raises or logs any part of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from zeus_runtime.errors import MissingError

if TYPE_CHECKING:
    from re import Match, Pattern


class Rule(NamedTuple):
    """A pattern with a name.

    Args:
        name: what it finds, as it may stand in a log.
        holds: looks closer at a match; every match counts without it.
    """

    name: str
    pattern: Pattern[str]
    holds: Callable[[Match[str]], bool] | None = None

    def finds(self, text: str) -> bool:
        return any(self.holds is None or self.holds(match) for match in self.pattern.finditer(text))


def secret_rule(text: str) -> str | None:
    """The name of the rule by which ``text`` holds a secret, or None.

    Our own patterns first, which cost little; then those of detect-secrets (Yelp, Apache-2.0), which are asked for
    patterns alone: neither its verification over the network nor its ``pragma: allowlist secret``, with which any
    text could excuse itself, is in the way.

    Args:
        text: normalised; something invisible inside a secret would hide it.

    Raises:
        MissingError: detect-secrets is not installed.
    """
    return pattern_rule(text) or library_rule(text)


def pattern_rule(text: str) -> str | None:
    """The name of the first of our own rules that finds a secret, or None."""
    return next((rule.name for rule in SECRETS if rule.finds(text)), None)


def injection_rule(text: str) -> str | None:
    """The name of the rule by which ``text`` speaks to a model instead of telling something, or None.

    Args:
        text: normalised.
    """
    return next((rule.name for rule in INJECTIONS if rule.finds(text)), None)


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


_CARD_LENGTHS: Final = frozenset({14, 15, 16, 19})


def _luhn(match: Match[str]) -> bool:
    digits = [int(each) for each in match[0] if each.isdigit()]
    if len(digits) not in _CARD_LENGTHS or len(set(digits)) == 1:
        return False
    doubled = [d if place % 2 == 0 else d * 2 - 9 * (d > 4) for place, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


_IBAN_LEAST: Final = 15


def _iban(match: Match[str]) -> bool:
    text = re.sub(r"[ -]", "", match[0]).upper()
    for length in range(len(text), _IBAN_LEAST - 1, -1):
        moved = text[4:length] + text[:4]
        if int("".join(str(int(each, 36)) for each in moved)) % 97 == 1:
            return True
    return False


_ID_WEIGHTS: Final = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def _chinese_id(match: Match[str]) -> bool:
    """GB 11643: the last character is a checksum of the seventeen before it."""
    number = match[0].upper()
    total = sum(int(digit) * weight for digit, weight in zip(number, _ID_WEIGHTS, strict=False))
    return "10X98765432"[total % 11] == number[-1]


_PLAIN: Final = frozenset(
    """a an the in on at by to of for with from and or not no never always only also still now
    secure strong weak long short safe unsafe required needed optional mandatory empty blank missing expired old new
    wrong right correct incorrect invalid valid secret private public hidden unknown known unique random
    same different important sensitive confidential simple complex hard easy good bad fine
    stored saved kept held hashed salted encrypted encoded generated managed rotated changed reset set shared given
    rejected accepted checked validated logged printed asked used reused forgotten lost leaked compromised masked
    handled provided passed read written sent entered typed injected loaded it that this there they he she we you
    something nothing anything going being been what where when how why mine yours theirs hers his""".split()
)


_AROUND: Final = "\"'`“”‘’.,;:!?()[]。"


def _secret_value(match: Match[str]) -> bool:
    """Whether what follows "password is" can be one, and is not the rest of a sentence about passwords."""
    value = match["value"].strip(_AROUND)
    if (
        len(value) < 3
        or value.casefold() in _PLAIN
        or re.fullmatch(r"[$%]?[{(<]+\w+[)}>]+%?|\*+|x+|\.+", value)
    ):
        return False
    if re.search(r"[\d@#$%^&*!+=~|\\]", value) or re.search(r"[a-z][A-Z]", value):
        return bool(re.search(r"[A-Za-z@#$%^&*!+=~|\\]", value)) or len(value) >= 4
    quoted = match["value"][:1] in "\"'`“‘"
    last = not re.match(r"\W*\w", match.string[match.end() :].split("\n")[0])
    ordinary = re.search(r"(?:ed|ing|able|ly)$", value) is not None
    return quoted or (last and not ordinary)


def _rule(name: str, pattern: str, holds: Callable[[Match[str]], bool] | None = None) -> Rule:
    return Rule(name, re.compile(pattern, re.IGNORECASE), holds)


def _exact(name: str, pattern: str, holds: Callable[[Match[str]], bool] | None = None) -> Rule:
    return Rule(name, re.compile(pattern), holds)


_WORD: Final = (
    r"(?:pass(?:word|phrase|code)|passwd|pwd|pin(?:\s(?:code|number))?|"
    r"(?:api|access|secret|auth|encryption|signing|license|master|private)[\s_-]?(?:key|token)|"
    r"(?:client|app|webhook|shared)[\s_-]?secret|secret[\s_-]?access[\s_-]?key|(?:bearer|refresh|session)[\s_-]?token|"
    r"login|credentials?|contraseña|mot de passe|passwort|kennwort|senha)"
)
_VALUE: Final = r"(?P<value>[\"'`“‘]?[^\s\"'`”’]+)"

SECRETS: Final[tuple[Rule, ...]] = (
    _exact("private key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    _exact("private key", r"\bAGE-SECRET-KEY-1[0-9A-Z]{20,}|\bPuTTY-User-Key-File-\d"),
    _exact("json web token", r"\bey[JI][\w-]{8,}\.ey[JI]?[\w-]{6,}\.[\w-]{5,}"),
    _exact("aws access key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    _rule(
        "aws secret key",
        r"\b(?:aws|secret)[^\n]{0,40}?(?<![\w/+])(?=[\w/+]*\d)(?=[\w/+]*[a-z])[\w/+]{40}(?![\w/+])",
    ),
    _exact("github token", r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})"),
    _exact("gitlab token", r"\bgl(?:pat|ptt|dt|rt|cbt|soat)-[\w-]{16,}"),
    _exact("stripe key", r"\b(?:[sr]k|pk)_(?:live|test)_[A-Za-z0-9]{10,}|\bwhsec_[A-Za-z0-9+/]{16,}"),
    _exact(
        "slack token",
        r"\bxox[abeoprs]-[\w-]{8,}|\bxapp-\d-[\w-]{10,}|hooks\.slack\.com/services/T\w+/B\w+/\w+",
    ),
    _exact("anthropic key", r"\bsk-ant-[\w-]{12,}"),
    _exact("openai key", r"\bsk-(?:proj-|svcacct-|admin-|or-v1-)?(?=[\w-]*\d)[\w-]{20,}"),
    _exact("google key", r"\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}"),
    _exact("hugging face token", r"\bhf_[A-Za-z0-9]{20,}"),
    _exact("package registry token", r"\bnpm_[A-Za-z0-9]{30,}|\bpypi-[\w-]{30,}"),
    _exact("sendgrid key", r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    _exact(
        "service token",
        r"\b(?:dop_v1_[a-f0-9]{40,}|shp(?:at|ss|ca)_[a-fA-F0-9]{30,}|lin_api_\w{30,}|r8_\w{30,})",
    ),
    _exact(
        "service token",
        r"\b(?:xai|gsk|pplx|nvapi|tvly)[-_](?=\w*\d)[\w-]{20,}|\bAC[a-f0-9]{32}\b|\bSK[a-f0-9]{32}\b",
    ),
    _rule("azure key", r"\b(?:Account|SharedAccess)Key=[\w+/]{20,}"),
    _exact("telegram token", r"\b\d{8,10}:AA[\w-]{30,}"),
    _rule(
        "password in an address",
        r"\b[a-z][a-z0-9+.-]*://[^\s/:@]*:(?![$<{*])(?!(?:password|pass|pwd|x+)@)[^\s/@]{3,}@[^\s/@]+",
    ),
    _rule(
        "authorization header",
        r"\bauthorization\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+(?![$<{])[\w.~+/-]{8,}",
    ),
    _rule("bearer token", r"\bbearer\s+(?=[\w.~+/-]*\d)(?=[\w.~+/-]*[a-z])[\w.~+/-]{20,}"),
    _rule(
        "password in words",
        rf"\b{_WORD}(?:\s+(?:for|to|of|on|at)\s+[^\n.:=]{{1,40}}?)?\s*(?:[\"']?\s*(?::=|=>|[:=])\s*"
        rf"|\s+(?:is|was|are|será|es|est|ist|lautet)\s*:?\s+"
        rf"(?:now\s+|still\s+|set to\s+|just\s+)?){_VALUE}",
        _secret_value,
    ),
    _rule(
        "password in words",
        rf"[\w-]*(?:_|-)(?:password|passwd|pwd|secret|token|api_?key)\s*[:=]\s*{_VALUE}",
        _secret_value,
    ),
    _rule(
        "password in words",
        rf"\buse\s+{_VALUE}\s+as\s+(?:the|my|our|your|a)\s+{_WORD}\b",
        _secret_value,
    ),
    _rule(
        "password in words",
        rf"\b(?:log\s?in|sign in|unlock|authenticate)\b[^\n.]{{0,60}}\bwith\s+(?:the\s+)?{_WORD}\s+{_VALUE}",
        _secret_value,
    ),
    _exact(
        "password in words",
        r"(?:密码|口令|密钥|秘钥|暗号|验证码|授权码|通行码|令牌|パスワード|暗証番号|비밀번호)(?:\s*(?:已经|现在|就|都|设)?\s*(?:是|为|改成了?|改为了?|换成了?"
        r"|设成|设为|は|:|=|就是|叫)\s*)+"
        r"[\"'“‘「]?(?=[!-~]{4,})(?!\d+\s*(?:位|个|天|字符|次|分钟|月))(?![A-Za-z-]{2,}\d*\s*(?:加密|格式|算法|存储|管理|哈希|生成))[!-~]{4,}",
    ),
    _rule(
        "recovery phrase",
        r"\b(?:seed|recovery|mnemonic|backup)\s+(?:phrase"
        r"|words?)\b[^\n]{0,20}[:=]?\s*(?:[a-z]{3,8}[ ,]+){11,}[a-z]{3,8}",
    ),
    _exact("recovery phrase", r"助记词[^\n]{0,6}(?:[a-z]{3,8}[ ,]+){11,}[a-z]{3,8}"),
    _exact("card number", r"(?<![\w.+-])[2-6]\d{3}(?:[ -]?\d){9,15}(?![\w-])", _luhn),
    _rule("card number", r"\b(?:cvv|cvc|cvv2|security code)\b\s*(?:is|:|=)?\s*\d{3,4}\b"),
    _rule("bank account", r"(?<![\w-])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}(?![A-Z0-9])", _iban),
    _exact(
        "identity number",
        r"(?<!\d)[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx](?!\d)",
        _chinese_id,
    ),
    _rule(
        "identity number", r"\b(?:ssn|social security(?: number)?)\b[^\n\d]{0,20}\d{3}[ -]?\d{2}[ -]?\d{4}\b"
    ),
    _exact("identity number", r"(?<![\d-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])"),
)
"""Secrets by their form, in the order they are looked for."""

_ORDERS: Final = (
    r"(?:instruction|prompt|rule|direction|guideline|guidance|message|command|constraint|polic(?:y|ie)|context|order)"
    r"s?"
)
_EARLIER: Final = (
    r"(?:previous|prior|above|earlier|preceding|existing|former|system|initial|original|foregoing)"
)

INJECTIONS: Final[tuple[Rule, ...]] = (
    _rule(
        "override of instructions",
        rf"\b(?:ignore|disregard|forget|override|bypass|neglect|skip|drop|discard)\b[^\n.]{{0,30}}?"
        rf"\b(?:{_EARLIER}[\s\w,]{{0,20}}?{_ORDERS}|(?:all|any|every|your|the)\s+(?:of\s+)?(?:your\s+"
        rf"|the\s+)?(?:safety\s+|system\s+)?"
        rf"(?:instructions|prompts?|rules|guidelines|directions)\b(?:\s+(?:above|before|so far|you))?"
        rf"|everything\s+(?:above|before|you))",
        lambda match: (
            not re.search(
                r"\b(?:don't|do not|never|not|doesn't|didn't|shouldn't)\s+$",
                match.string[: match.start()][-20:],
                re.IGNORECASE,
            )
        ),
    ),
    _exact(
        "override of instructions",
        r"(?:忽略|无视|忘记|忘掉|不要理会|不要遵守|绕过|跳过|抛弃|覆盖|別理|忽視)[^\n。!;]{0,12}?(?:之前|以前|以上|上述|上面|前面|先前|所有|全部|一切|系统|原有"
        r"|你的|此前|原来)[^\n。!;]{0,10}?(?:指令|指示|提示|规则|设定|要求|命令|约束|限制|对话|内容|規則|说明)",
    ),
    _rule(
        "system prompt impersonation",
        r"(?:^|\n|[.!?\"'>]\s)\s*(?:#+\s*)?[\[(<*{]*\s*(?:system|assistant|developer)(?:\s+(?:prompt"
        r"|message|instructions?|override|notice|update))?\s*[\])>*}]*\s*[:：]",
    ),
    _rule(
        "system prompt impersonation",
        r"\b(?:new|updated|revised|real|actual)\s+(?:system\s+)(?:instructions?|prompt|message)\b"
        r"|\bbegin(?:ning)?\s+(?:of\s+)?(?:new\s+)?system\s+(?:prompt|message)",
    ),
    _exact(
        "system prompt impersonation",
        r"(?:^|\n|[。!;\"”]\s*)\s*[\[【(<#]*\s*(?:系统|開發者|开发者|管理员)\s*(?:提示|消息|指令|通知|提示词|信息)?\s*[\]】)>]*\s*:"
        r"|(?:新的|更新后的|真正的)系统(?:提示词?|指令)",
    ),
    _rule(
        "role change",
        r"\byou\s+are\s+(?:now|no longer)\s+(?:an?\s+|the\s+|in\s+|bound\b|going\b|free\b|dan\b|called\b)"
        r"|\b(?:act|behave|respond|answer)\s+as\s+(?:if\s+you\s+(?:were|are|have no)|an?\s+unrestricted"
        r"|dan\b)|\bpretend\s+(?:to\s+be|you\s+are|that\s+you)|\b(?:enter|enable|activate)\s+(?:dan"
        r"|developer|jailbreak|god|unrestricted|debug|admin)\s+mode",
    ),
    _exact(
        "role change",
        r"你现在(?:是|不再是|扮演|进入|要扮演)|从现在(?:起|开始),?\s*你(?:是|不再|必须|要|将|只)|(?:假装|假设)你(?:是|没有)|扮演一个(?:没有|不受)"
        r"|进入(?:开发者|越狱|无限制|上帝|管理员|调试)模式",
    ),
    _rule(
        "prompt extraction",
        r"\b(?:reveal|print|show|repeat|output|leak|display|send|share|tell me|give me"
        r"|dump)\b[^\n.]{0,30}\b(?:your|the)\s+(?:full\s+|entire\s+|hidden\s+|secret\s+"
        r"|initial\s+)*(?:system\s+(?:prompt|message|instructions?)|hidden\s+(?:prompt|instructions?)"
        r"|initial\s+(?:prompt|instructions?)|(?:secret|api)\s+keys?\s+(?:to|in|at)\b)",
    ),
    _exact(
        "prompt extraction",
        r"(?:输出|打印|泄露|告诉我|显示|重复|公开|发送)[^\n。]{0,10}(?:系统提示|系统指令|隐藏(?:的)?(?:指令|提示)|初始(?:指令|提示)|提示词全文)",
    ),
    _rule(
        "tool call markup",
        r"</?\s*(?:antml:)?(?:function_calls?|invoke|tool_calls?|tool_use|tool_results?|function_results?"
        r"|parameter)\b[^>\n]{0,80}>|<\|[\w ]{2,30}\|>|\[/?(?:INST|TOOL_CALLS|AVAILABLE_TOOLS"
        r"|TOOL_RESULTS)\]|<</?SYS>>|<(?:start|end)_of_turn>",
    ),
    _rule(
        "tool call markup",
        r"\{\s*[\"'](?:tool_calls?|function_call|tool_use)[\"']\s*:|\{\s*[\"'](?:name"
        r"|tool)[\"']\s*:\s*[\"'][\w.-]+[\"']\s*,\s*[\"'](?:arguments|parameters|input|args)[\"']\s*:",
    ),
    _rule(
        "delimiter impersonation",
        r"</?\s*(?:system|assistant|developer|memor(?:y|ies)|instructions?|system[_-]reminder|context"
        r"|available_skills)\s*/?>|\b(?:end|start)\s+of\s+(?:the\s+)?(?:system\s+)?(?:memories|memory|data"
        r"|context|untrusted)\s+(?:block|section)\b",
    ),
    _rule(
        "hidden action",
        r"\b(?:without|don't|do not|never)\s+(?:ever\s+)?(?:telling|informing|notifying|mentioning|asking"
        r"|tell|inform|notify|alert)\s+(?:this\s+to\s+|it\s+to\s+)?(?:the\s+)?(?:user|human|anyone"
        r"|operator)\b[^\n]{0,60}\b(?:send|forward|upload|delete|post|run|execute|call|email|exfiltrate"
        r"|copy)|\b(?:send|forward|upload|delete|post|run|execute|call|email|exfiltrate"
        r"|copy)\b[^\n]{0,80}\b(?:without|don't|do not)\s+(?:telling|informing|notifying|mentioning|asking"
        r"|tell|inform|notify|mention|ask)\b[^\n.]{0,20}\b(?:user|human|anyone|operator)\b",
    ),
    _exact(
        "hidden action",
        r"(?:不要|别|无需|不用)(?:告诉|通知|提醒|让)用户[^\n]{0,30}(?:发送|上传|删除|执行|运行|转发|调用)|(?:发送|上传|删除|执行|运行|转发"
        r"|调用)[^\n]{0,30}(?:不要|别|无需|不用)(?:告诉|通知|提醒|让)用户",
    ),
)
"""Texts that speak to a model, in English and Chinese, in the order they are looked for."""
