"""Secrets by their form: keys of services, passwords in words, numbers of cards, accounts and persons."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from zeus_runtime.memory.admission.patterns import NamedPattern, exact, rule

if TYPE_CHECKING:
    from re import Match

_CARD_LENGTHS: Final = frozenset({14, 15, 16, 19})


def _card(match: Match[str]) -> bool:
    """Whether a card number begins here: other numbers may stand behind it, as they may before it."""
    parts = re.split("[ -]", match[0] + match[1])
    return any(_luhn("".join(parts[:count])) for count in range(1, len(parts) + 1))


def _luhn(number: str) -> bool:
    digits = [int(each) for each in number]
    if len(digits) not in _CARD_LENGTHS or len(set(digits)) == 1:
        return False
    doubled = [d if place % 2 == 0 else d * 2 - 9 * (d > 4) for place, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


_IBAN_LENGTHS: Final = {
    each[:2]: int(each[2:])
    for each in """
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20
    EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30
    KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23
    PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26
    UA29 VA22 VG24 XK20 YE30
    """.split()
}
"""Characters of an account's number in each country (SWIFT's IBAN registry)."""


def _iban(match: Match[str]) -> bool:
    """Whether an account's number begins here; words may stand behind it, as they may before it."""
    text = re.sub(r"[ -]", "", match[0] + match[1]).upper()
    length = _IBAN_LENGTHS.get(text[:2])
    if length is None or len(text) < length:
        return False
    return int("".join(str(int(each, 36)) for each in text[4:length] + text[:4])) % 97 == 1


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


_WORD: Final = (
    r"(?:pass(?:word|phrase|code)|passwd|pwd|pin(?:\s(?:code|number))?|"
    r"(?:api|access|secret|auth|encryption|signing|license|master|private)[\s_-]?(?:key|token)|"
    r"(?:client|app|webhook|shared)[\s_-]?secret|secret[\s_-]?access[\s_-]?key|(?:bearer|refresh|session)[\s_-]?token|"
    r"login|credentials?|contraseña|mot de passe|passwort|kennwort|senha)"
)
_WORD_SIGNS: Final = "pass|pwd|pin|key|token|secret|login|credential|contrase|kennwort|senha"
_VALUE: Final = r"(?P<value>[\"'`“‘]?[^\s\"'`”’]+)"

CREDENTIALS: Final[tuple[NamedPattern, ...]] = (
    exact("private key", "private key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    exact(
        "private key",
        "age-secret-key-1|putty-user-key-file-",
        r"\bAGE-SECRET-KEY-1[0-9A-Z]{20,}|\bPuTTY-User-Key-File-\d",
    ),
    exact("json web token", "eyj|eyi", r"\bey[JI][\w-]{8,}\.ey[JI]?[\w-]{6,}\.[\w-]{5,}"),
    exact("aws access key", "akia|asia|abia|acca", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    rule(
        "aws secret key",
        "aws|secret",
        r"\b(?:aws|secret)[^\n]{0,40}?(?<![\w/+])(?=[\w/+]*\d)(?=[\w/+]*[a-z])[\w/+]{40}(?![\w/+])",
    ),
    exact(
        "github token",
        "ghp_|gho_|ghu_|ghs_|ghr_|github_pat_",
        r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})",
    ),
    exact(
        "gitlab token",
        "glpat-|glptt-|gldt-|glrt-|glcbt-|glsoat-",
        r"\bgl(?:pat|ptt|dt|rt|cbt|soat)-[\w-]{16,}",
    ),
    exact(
        "stripe key",
        "k_live_|k_test_|whsec_",
        r"\b(?:[sr]k|pk)_(?:live|test)_[A-Za-z0-9]{10,}|\bwhsec_[A-Za-z0-9+/]{16,}",
    ),
    exact(
        "slack token",
        "xox|xapp-|hooks.slack.com",
        r"\bxox[abeoprs]-[\w-]{8,}|\bxapp-\d-[\w-]{10,}|hooks\.slack\.com/services/T\w+/B\w+/\w+",
    ),
    exact("anthropic key", "sk-ant-", r"\bsk-ant-[\w-]{12,}"),
    exact("openai key", "sk-", r"\bsk-(?:proj-|svcacct-|admin-|or-v1-)?(?=[\w-]*\d)[\w-]{20,}"),
    exact("google key", "aiza|ya29.|gocspx-", r"\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}"),
    exact("hugging face token", "hf_", r"\bhf_[A-Za-z0-9]{20,}"),
    exact("package registry token", "npm_|pypi-", r"\bnpm_[A-Za-z0-9]{30,}|\bpypi-[\w-]{30,}"),
    exact("sendgrid key", "sg.", r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    exact(
        "service token",
        "dop_v1_|shpat_|shpss_|shpca_|lin_api_|r8_",
        r"\b(?:dop_v1_[a-f0-9]{40,}|shp(?:at|ss|ca)_[a-fA-F0-9]{30,}|lin_api_\w{30,}|r8_\w{30,})",
    ),
    exact(
        "service token",
        "xai|gsk|pplx|nvapi|tvly|ac|sk",
        r"\b(?:xai|gsk|pplx|nvapi|tvly)[-_](?=\w*\d)[\w-]{20,}|\bAC[a-f0-9]{32}\b|\bSK[a-f0-9]{32}\b",
    ),
    rule("azure key", "key=", r"\b(?:Account|SharedAccess)Key=[\w+/]{20,}"),
    exact("telegram token", ":aa", r"\b\d{8,10}:AA[\w-]{30,}"),
    rule(
        "password in an address",
        "://",
        r"\b[a-z][a-z0-9+.-]*://[^\s/:@]*:(?![$<{*])(?!(?:password|pass|pwd|x+)@)[^\s/@]{3,}@[^\s/@]+",
    ),
    rule(
        "authorization header",
        "authorization",
        r"\bauthorization\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+(?![$<{])[\w.~+/-]{8,}",
    ),
    rule("bearer token", "bearer", r"\bbearer\s+(?=[\w.~+/-]*\d)(?=[\w.~+/-]*[a-z])[\w.~+/-]{20,}"),
    rule(
        "password in words",
        _WORD_SIGNS,
        rf"\b{_WORD}(?:\s+(?:for|to|of|on|at)\s+[^\n.:=]{{1,40}}?)?\s*(?:[\"']?\s*(?::=|=>|[:=])\s*"
        rf"|\s+(?:is|was|are|será|es|est|ist|lautet)\s*:?\s+"
        rf"(?:now\s+|still\s+|set to\s+|just\s+)?){_VALUE}",
        _secret_value,
    ),
    rule(
        "password in words",
        "passw|pwd|secret|token|key",
        rf"[\w-]*(?:_|-)(?:password|passwd|pwd|secret|token|api_?key)\s*[:=]\s*{_VALUE}",
        _secret_value,
    ),
    rule(
        "password in words",
        _WORD_SIGNS,
        rf"\buse\s+{_VALUE}\s+as\s+(?:the|my|our|your|a)\s+{_WORD}\b",
        _secret_value,
    ),
    rule(
        "password in words",
        _WORD_SIGNS,
        rf"\b(?:log\s?in|sign in|unlock|authenticate)\b[^\n.]{{0,60}}\bwith\s+(?:the\s+)?{_WORD}\s+{_VALUE}",
        _secret_value,
    ),
    exact(
        "password in words",
        "密码|口令|密钥|秘钥|暗号|验证码|授权码|通行码|令牌|パスワード|暗証番号|비밀번호",
        r"(?:密码|口令|密钥|秘钥|暗号|验证码|授权码|通行码|令牌|パスワード|暗証番号|비밀번호)(?:\s*(?:已经|现在|就|都|设)?\s*(?:是|为|改成了?|改为了?|换成了?"
        r"|设成|设为|は|:|=|就是|叫)\s*)+"
        r"[\"'“‘「]?(?=[!-~]{4,})(?!\d+\s*(?:位|个|天|字符|次|分钟|月))(?![A-Za-z-]{2,}\d*\s*(?:加密|格式|算法|存储|管理|哈希|生成))[!-~]{4,}",
    ),
    rule(
        "recovery phrase",
        "seed|recovery|mnemonic|backup",
        r"\b(?:seed|recovery|mnemonic|backup)\s+(?:phrase"
        r"|words?)\b[^\n]{0,20}[:=]?\s*(?:[a-z]{3,8}[ ,]+){11,}[a-z]{3,8}",
    ),
    exact("recovery phrase", "助记词", r"助记词[^\n]{0,6}(?:[a-z]{3,8}[ ,]+){11,}[a-z]{3,8}"),
)
"""What lets somebody in, by its form."""

SECRETS: Final[tuple[NamedPattern, ...]] = (
    *CREDENTIALS,
    exact("card number", "2|3|4|5|6", r"(?<![\w.+-])[2-6](?=(\d{3}(?:[ -]?\d){9,15})(?![\w-]))", _card),
    rule("card number", "cvv|cvc|security", r"\b(?:cvv|cvc|cvv2|security code)\b\s*(?:is|:|=)?\s*\d{3,4}\b"),
    rule("bank account", "", r"(?<![\w-])[A-Z](?=([A-Z]\d{2}(?:[ -]?[A-Z0-9]){11,30}))", _iban),
    exact(
        "identity number",
        "19|20",
        r"(?<!\d)[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx](?!\d)",
        _chinese_id,
    ),
    rule(
        "identity number",
        "ssn|social",
        r"\b(?:ssn|social security(?: number)?)\b[^\n\d]{0,20}\d{3}[ -]?\d{2}[ -]?\d{4}\b",
    ),
    exact("identity number", "-", r"(?<![\d-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])"),
)
"""Credentials, then the numbers of cards, accounts and persons, in the order they are looked for."""
