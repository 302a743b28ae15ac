"""Texts that speak to a model, in English and Chinese: orders, roles, asked-for prompts, markup of calls."""

from __future__ import annotations

import re
from typing import Final

from zeus_runtime.memory.admission.patterns import NamedPattern, exact, rule

_ORDERS: Final = (
    r"(?:instruction|prompt|rule|direction|guideline|guidance|message|command|constraint|polic(?:y|ie)|context|order)"
    r"s?"
)
_EARLIER: Final = (
    r"(?:previous|prior|above|earlier|preceding|existing|former|system|initial|original|foregoing)"
)

INJECTIONS: Final[tuple[NamedPattern, ...]] = (
    rule(
        "override of instructions",
        "ignore|disregard|forget|override|bypass|neglect|skip|drop|discard",
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
    exact(
        "override of instructions",
        "忽略|无视|忘记|忘掉|不要理会|不要遵守|绕过|跳过|抛弃|覆盖|別理|忽視",
        r"(?:忽略|无视|忘记|忘掉|不要理会|不要遵守|绕过|跳过|抛弃|覆盖|別理|忽視)[^\n。!;]{0,12}?(?:之前|以前|以上|上述|上面|前面|先前|所有|全部|一切|系统|原有"
        r"|你的|此前|原来)[^\n。!;]{0,10}?(?:指令|指示|提示|规则|设定|要求|命令|约束|限制|对话|内容|規則|说明)",
    ),
    rule(
        "system prompt impersonation",
        "system|assistant|developer",
        r"(?:^|\n|[.!?\"'>]\s)\s*(?:#+\s*)?[\[(<*{]*\s*(?:system|assistant|developer)(?:\s+(?:prompt"
        r"|message|instructions?|override|notice|update))?\s*[\])>*}]*\s*[:：]",
    ),
    rule(
        "system prompt impersonation",
        "system",
        r"\b(?:new|updated|revised|real|actual)\s+(?:system\s+)(?:instructions?|prompt|message)\b"
        r"|\bbegin(?:ning)?\s+(?:of\s+)?(?:new\s+)?system\s+(?:prompt|message)",
    ),
    exact(
        "system prompt impersonation",
        "系统|開發者|开发者|管理员",
        r"(?:^|\n|[。!;\"”]\s*)\s*[\[【(<#]*\s*(?:系统|開發者|开发者|管理员)\s*(?:提示|消息|指令|通知|提示词|信息)?\s*[\]】)>]*\s*:"
        r"|(?:新的|更新后的|真正的)系统(?:提示词?|指令)",
    ),
    rule(
        "role change",
        "you|act|behave|respond|answer|pretend|mode",
        r"\byou\s+are\s+(?:now|no longer)\s+(?:an?\s+|the\s+|in\s+|bound\b|going\b|free\b|dan\b|called\b)"
        r"|\b(?:act|behave|respond|answer)\s+as\s+(?:if\s+you\s+(?:were|are|have no)|an?\s+unrestricted"
        r"|dan\b)|\bpretend\s+(?:to\s+be|you\s+are|that\s+you)|\b(?:enter|enable|activate)\s+(?:dan"
        r"|developer|jailbreak|god|unrestricted|debug|admin)\s+mode",
    ),
    exact(
        "role change",
        "你现在|从现在|假装|假设|扮演|模式",
        r"你现在(?:是|不再是|扮演|进入|要扮演)|从现在(?:起|开始),?\s*你(?:是|不再|必须|要|将|只)|(?:假装|假设)你(?:是|没有)|扮演一个(?:没有|不受)"
        r"|进入(?:开发者|越狱|无限制|上帝|管理员|调试)模式",
    ),
    rule(
        "prompt extraction",
        "system|hidden|initial|secret|api",
        r"\b(?:reveal|print|show|repeat|output|leak|display|send|share|tell me|give me"
        r"|dump)\b[^\n.]{0,30}\b(?:your|the)\s+(?:full\s+|entire\s+|hidden\s+|secret\s+"
        r"|initial\s+)*(?:system\s+(?:prompt|message|instructions?)|hidden\s+(?:prompt|instructions?)"
        r"|initial\s+(?:prompt|instructions?)|(?:secret|api)\s+keys?\s+(?:to|in|at)\b)",
    ),
    exact(
        "prompt extraction",
        "系统提示|系统指令|隐藏|初始|提示词全文",
        r"(?:输出|打印|泄露|告诉我|显示|重复|公开|发送)[^\n。]{0,10}(?:系统提示|系统指令|隐藏(?:的)?(?:指令|提示)|初始(?:指令|提示)|提示词全文)",
    ),
    rule(
        "tool call markup",
        "<|[",
        r"</?\s*(?:antml:)?(?:function_calls?|invoke|tool_calls?|tool_use|tool_results?|function_results?"
        r"|parameter)\b[^>\n]{0,80}>|<\|[\w ]{2,30}\|>|\[/?(?:INST|TOOL_CALLS|AVAILABLE_TOOLS"
        r"|TOOL_RESULTS)\]|<</?SYS>>|<(?:start|end)_of_turn>",
    ),
    rule(
        "tool call markup",
        "{",
        r"\{\s*[\"'](?:tool_calls?|function_call|tool_use)[\"']\s*:|\{\s*[\"'](?:name"
        r"|tool)[\"']\s*:\s*[\"'][\w.-]+[\"']\s*,\s*[\"'](?:arguments|parameters|input|args)[\"']\s*:",
    ),
    rule(
        "delimiter impersonation",
        "<|block|section",
        r"</?\s*(?:system|assistant|developer|memor(?:y|ies)|instructions?|system[_-]reminder|context"
        r"|available_skills)\s*/?>|\b(?:end|start)\s+of\s+(?:the\s+)?(?:system\s+)?(?:memories|memory|data"
        r"|context|untrusted)\s+(?:block|section)\b",
    ),
    rule(
        "hidden action",
        "user|human|anyone|operator",
        r"\b(?:without|don't|do not|never)\s+(?:ever\s+)?(?:telling|informing|notifying|mentioning|asking"
        r"|tell|inform|notify|alert)\s+(?:this\s+to\s+|it\s+to\s+)?(?:the\s+)?(?:user|human|anyone"
        r"|operator)\b[^\n]{0,60}\b(?:send|forward|upload|delete|post|run|execute|call|email|exfiltrate"
        r"|copy)|\b(?:send|forward|upload|delete|post|run|execute|call|email|exfiltrate"
        r"|copy)\b[^\n]{0,80}\b(?:without|don't|do not)\s+(?:telling|informing|notifying|mentioning|asking"
        r"|tell|inform|notify|mention|ask)\b[^\n.]{0,20}\b(?:user|human|anyone|operator)\b",
    ),
    exact(
        "hidden action",
        "用户",
        r"(?:不要|别|无需|不用)(?:告诉|通知|提醒|让)用户[^\n]{0,30}(?:发送|上传|删除|执行|运行|转发|调用)|(?:发送|上传|删除|执行|运行|转发"
        r"|调用)[^\n]{0,30}(?:不要|别|无需|不用)(?:告诉|通知|提醒|让)用户",
    ),
)
"""Texts that speak to a model, in English and Chinese, in the order they are looked for."""
