"""Which provider errors mean "the request does not fit the context window", and the token counts they state.

``SAYINGS`` is data: one row per wording, with where it was seen. ``tests/models/overflow_messages.json`` holds whole
messages. The first matching row names the provider, and its named groups ``used`` and ``limit`` give the numbers. If a
message splits the request into input and output, only the input counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Overflow:
    """A context overflow as a provider reports it.

    Args:
        provider: whose wording it is; others, such as proxies, use it too.
        input_tokens: the request's size in tokens, where the message states it.
        limit_tokens: the window in tokens, where the message states it.
    """

    provider: str
    input_tokens: int | None = None
    limit_tokens: int | None = None


_N: Final = r"(\d+(?:,\d{3})*)"
_USED: Final = r"(?P<used>\d+(?:,\d{3})*)"
_LIMIT: Final = r"(?P<limit>\d+(?:,\d{3})*)"

SAYINGS: Final = (
    ("openai", rf"input tokens exceed the configured limit of {_LIMIT} tokens(?:.*?resulted in {_USED} tokens)?",
     "github.com/cline/cline/issues/5474"),
    ("openrouter", rf"endpoint's maximum context length is {_LIMIT} tokens.*?requested about {_USED} tokens",
     "github.com/OpenHands/OpenHands/issues/9937"),
    ("vllm", rf"maximum context length is {_LIMIT} tokens.*?prompt contains at least {_USED} input tokens",
     "github.com/AIDotNet/OpenCowork/issues/82"),
    ("vllm", rf"maximum context length is {_LIMIT} tokens and your request has {_USED} input tokens",
     "github.com/claude-code-best/claude-code/issues/272"),
    ("openai", rf"maximum context length is {_LIMIT} tokens.*?(?:resulted in|you requested) {_USED} tokens",
     "github.com/webtimemachine/wtm2/issues/579; deepseek: github.com/RooCodeInc/Roo-Code/issues/1767; "
     "vllm: github.com/vllm-project/vllm/issues/20409"),
    ("bedrock", rf"maximum context length is {_LIMIT} tokens", "Llama on Bedrock, without the request's size"),
    ("openai", r"maximum context length has been exceeded", "github.com/Niek/chatgpt-web/issues/525"),
    ("openai", r"input exceeds the context window of this model", "OpenAI Responses API"),
    ("openai", r"string_above_max_length|string too long\. expected a string with maximum length \d+",
     "OpenAI, a single text over its character limit"),
    ("sglang", rf"requested token count exceeds the model's maximum context length(?: of {_LIMIT} tokens)?"
     rf"(?:.*?total of {_USED} tokens)?", "SGLang's tokenizer manager"),
    ("sglang", rf"input length \({_USED}\) exceeds model's maximum context length \({_LIMIT}\)",
     "SGLang; DashScope's compatible endpoints"),
    ("together", rf"input \({_USED} tokens\) is longer than the model's context length \({_LIMIT} tokens\)",
     "Together AI, SGLang"),
    ("together", rf"`inputs` tokens \+ `max_new_tokens` must be <= {_LIMIT}(?:\. given: {_USED} `inputs` tokens)?",
     "github.com/stanford-crfm/helm/pull/2079"),
    ("huggingface", rf"`inputs` must have less than {_LIMIT} tokens(?:\. given: {_USED})?",
     "github.com/h2oai/h2ogpt/issues/373"),
    ("anthropic", rf"prompt is too long: {_USED} tokens > {_LIMIT} maximum",
     "github.com/earendil-works/pi/issues/102; Bedrock: github.com/aaif-goose/goose/pull/7504"),
    ("anthropic", rf"input length and `?max_tokens`? exceed context limit: {_USED} \+ \d+ > {_LIMIT}",
     "github.com/docker/docker-agent/issues/569"),
    ("anthropic", r"request size exceeds model context window", "github.com/anthropics/claude-code/issues/6380"),
    ("anthropic", r"request_too_large|request exceeds the maximum (?:allowed )?(?:size|number of bytes)",
     "docs.anthropic.com/en/api/errors, status 413"),
    ("fireworks", rf"prompt is too long: {_USED}, model maximum context length: {_LIMIT}",
     "github.com/fw-ai/cookbook/issues/134"),
    ("anthropic", r"prompt is too long", "github.com/NanmiCoder/cc-haha/issues/860"),
    ("gemini", rf"input token count(?: \({_USED}\))? exceeds the maximum number of tokens allowed \(?{_LIMIT}",
     "github.com/google-gemini/gemini-cli/issues/6678"),
    ("vertex_ai", rf"input token count is {_USED} but (?:the )?model (?:only )?supports up to {_LIMIT}",
     "Vertex AI generateContent, status 400"),
    ("bedrock", r"input is too long for requested model", "github.com/continuedev/continue/issues/6005"),
    ("bedrock", r"number of input tokens exceeds maximum length", "Amazon Nova on Bedrock"),
    ("bedrock", rf"too many input tokens\. max input tokens: {_LIMIT}(?:, request input token count: {_USED})?",
     "Amazon Titan on Bedrock"),
    ("mistral", rf"prompt contains {_USED} tokens.*?too large for model with {_LIMIT} maximum context length",
     "Mistral API, code 3051"),
    ("cohere", rf"total number of tokens (?:in the prompt|\(prompt and prediction\)) cannot exceed {_LIMIT}"
     rf"(?: - received {_USED})?", "github.com/cohere-ai/sandbox-topically/issues/4"),
    ("cerebras", rf"current length is {_USED} while limit is {_LIMIT}", "Cerebras, code context_length_exceeded"),
    ("groq", r"reduce the length of the messages(?! or completion\. none)", "Groq, code context_length_exceeded"),
    ("dashscope", rf"range of input length should be \[\d+, ?{_LIMIT}\]",
     "github.com/QwenLM/qwen-code/issues/98"),
    ("moonshot", rf"exceeded model token limit:? ?{_LIMIT}(?: \(requested: {_USED}\))?", "Moonshot AI, Kimi"),
    ("moonshot", r"total message size \d+ exceeds limit \d+",
     "github.com/MoonshotAI/kimi-code/issues/476, in bytes"),
    ("vllm", rf"prompt \((?:total )?length {_USED}\) is (?:too long to fit into the model \(context length"
     rf"|longer than the maximum model length of) {_LIMIT}", "github.com/vllm-project/vllm/issues/12165"),
    ("vllm", rf"input prompt \({_USED} tokens\) is too long and exceeds limit of {_LIMIT}",
     "github.com/vllm-project/vllm/issues/525"),
    ("llama.cpp", rf"request \({_USED} tokens\) exceeds the available context size \({_LIMIT} tokens\)",
     "llama.cpp server, exceed_context_size_error"),
    ("llama.cpp", r"exceeds the available context size", "llama.cpp server, older"),
    ("ollama", r"prompt too long; exceeded max(?:imum)? context length", "Ollama"),
    ("ollama", r"input length exceeds (?:the |maximum )?context length", "Ollama"),
    ("lm_studio", rf"keep the first {_USED} tokens when context.*?context length of only {_LIMIT} tokens",
     "github.com/cline/cline/issues/3664"),
    ("lm_studio", rf"initial prompt(?: \({_USED}\))? is greater than the context length(?: \(?{_LIMIT})?",
     "LM Studio"),
    ("xai", rf"maximum prompt length is {_LIMIT} but the request contains {_USED} tokens",
     "github.com/cline/cline/issues/3120"),
    ("github_copilot", rf"prompt token count of {_USED} exceeds the limit of {_LIMIT}",
     "github.com/jjleng/copilot-more/issues/35"),
    ("github", rf"request body too large for .*? model\. max size: {_LIMIT} tokens",
     "github.com/cline/cline/issues/2115"),
    ("zai", r"prompt exceeds max(?:imum)? (?:context )?length|model_context_window_exceeded",
     "github.com/zeroclaw-labs/zeroclaw/issues/4124, code 1261"),
    ("minimax", r"context window exceeds limit", "github.com/MiniMax-AI/MiniMax-M2/issues/119"),
    ("any", r"context_length_exceeded|context (?:length|window) (?:is |was )?exceeded",
     "the code most compatible servers use"),
)  # fmt: skip
"""(provider, wording as a case-insensitive pattern, where it was seen). Facts gathered in November 2026."""

_LOOK_ALIKES: Final = (
    r"per[ -](?:second|minute|min|hour|day)\b",
    r"\b(?:tpm|rpm|tpd|itpm|otpm)\b",
    r"rate[ _-]?limit(?!s\b)|too many requests|quota",
    r"supports at most [\d,]+ (?:completion|output) tokens",
    r"(?<!\+ .)max(?:_completion|_output|_new)?_tokens[`'\"]?(?: value)?[^.]{0,60}(?:valid range|less than or equal|"
    r"maximum value|<=|limit of|exceeds the (?:limit|maximum))",
    r"max tokens must be less than",
    r"maximum tokens you requested exceeds the model limit",
    r"context window (?:is )?too small",
)
"""Wordings that speak of tokens and limits but of the rate, or of the answer's size: not an overflow."""

_INPUT_PART: Final = re.compile(
    rf"{_N} (?:(?:of|in the) (?:text|tool|image|audio|file) input|in (?:the messages|your prompt)"
    rf"|tokens from the input messages)",
    re.IGNORECASE,
)
_PROMPT_FIELD: Final = re.compile(r"\"n_prompt_tokens\"\s*:\s*(\d+)")
_WINDOW_FIELD: Final = re.compile(r"\"n_ctx\"\s*:\s*(\d+)")


def find_overflow(text: str) -> Overflow | None:
    """What ``text``, an error message or body, says of a context overflow; None when it says something else."""
    folded = " ".join(text.replace("’", "'").split())
    if any(re.search(pattern, folded, re.IGNORECASE) for pattern in _LOOK_ALIKES):
        return None
    # The first row that fits, so rows with numbers stand above those without.
    for provider, pattern, _ in SAYINGS:
        found = re.search(pattern, folded, re.IGNORECASE)
        if found:
            groups = found.groupdict()
            parts = _INPUT_PART.findall(folded)
            # OpenAI names the parts of the input beside a sum that includes the answer's tokens.
            used = sum(map(_number, parts)) if parts else _count(groups.get("used"))
            return Overflow(
                provider,
                used or _field(_PROMPT_FIELD, folded),
                _count(groups.get("limit")) or _field(_WINDOW_FIELD, folded),
            )
    return None


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))


def _count(digits: str | None) -> int | None:
    return None if digits is None else _number(digits)


def _field(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found[1]) if found else None
