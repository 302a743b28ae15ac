"""The phrases that ``drift`` reads an agent's words by, one set per language: data, no logic."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Phrases:
    """Patterns for one language; each is searched for in a text or a sentence.

    Args:
        asks: the sentence asks the user for something that they know.
        polite: such a sentence asks even without a question mark.
        open_ended: it asks for a decision or offers more, which may be repeated.
        no_answer: a short text of the user that may be no answer.
        done: the agent says that the whole task is done.
        not_done: the same text says that something is left.
        claim: up to its sentence's end, a claim that something was written.
        file: in a claim, a relative file name (group 1).
        failed: a tool's result that begins so is an error.
        stop: words that say nothing of what is asked for.
    """

    asks: re.Pattern[str]
    polite: re.Pattern[str]
    open_ended: re.Pattern[str]
    no_answer: re.Pattern[str]
    done: re.Pattern[str]
    not_done: re.Pattern[str]
    claim: re.Pattern[str]
    file: re.Pattern[str]
    failed: re.Pattern[str]
    stop: re.Pattern[str]


_REST_OF_SENTENCE: Final = r"([^.!?。！？\n]|\.(?=\w))*"
_FILE_NAME: Final = r"(/?[\w\-]{2,}(?:/[\w.\-]+)*\.[A-Za-z][A-Za-z0-9]{0,7})(?![A-Za-z0-9])"

ENGLISH: Final = Phrases(
    asks=re.compile(
        r"\b(what|which|who|whom|whose|where|when|how (?:many|much|long|old|often)"
        r"|(?:could|can|would|will) you (?:please )?(?:also )?(?:provide|tell|give|share|specify|send|name)"
        r"|(?:please|kindly) (?:also )?(?:provide|tell|give|share|specify|send|name)"
        r"|(?:i|we) (?:will |'ll |would |'d )?(?:also )?need (?:to know|your|the following))\b",
        re.IGNORECASE,
    ),
    polite=re.compile(r"\b(please|kindly|need)\b", re.IGNORECASE),
    open_ended=re.compile(
        r"\b(anything else|something else|any other|further|how (?:can|may|else)|what (?:else|would you like"
        r"|do you want|should i|can i)|would you like|do you want|shall i|should i|confirm|proceed|prefer|next"
        r"|instead|alternative|if (?:you|there)|let me know)\b",
        re.IGNORECASE,
    ),
    no_answer=re.compile(
        r"\b(don't|do not|doesn't|not|can't|cannot|no|unsure|unknown|why|what do you mean|remember|recall)\b",
        re.IGNORECASE,
    ),
    done=re.compile(
        r"^\W*(?:(?:all|everything|that|it|the (?:work|task|job)|all (?:of )?(?:the )?(?:tasks|steps|items|work))"
        r"(?: (?:is|are|has been|have been|'s))?(?: now)? (?:all )?(?:done|finished|complete|completed)"
        r"|(?:i|we)(?:'ve| have)(?: now| successfully)? (?:finished|completed|done) "
        r"(?:all|everything|the (?:work|task|job)|it)"
        r"|done|finished|task complete[d]?|work complete[d]?)\b(?!\s+(?:if|when|once|until|after|as soon))",
        re.IGNORECASE | re.MULTILINE,
    ),
    not_done=re.compile(
        r"\b(not (?:yet )?(?:done|finished|complete)|remain|still|except|partly|but|left to)\b", re.IGNORECASE
    ),
    claim=re.compile(
        r"\b(?:i|we)(?:'ve| have)?(?: now| also)? (?:wrote|written|created|saved|made|generated|added|stored|put)\b"
        + _REST_OF_SENTENCE,
        re.IGNORECASE,
    ),
    file=re.compile(r"\b(?:to|as|at|into|file|called|named)(?: the file)?:?\s+[`'\"]?" + _FILE_NAME),
    failed=re.compile(r"\W*(?:error|traceback|exception)\b", re.IGNORECASE),
    stop=re.compile(
        r"\b(?:a|an|the|to|of|for|in|on|at|and|or|so|is|are|be|i|me|my|we|us|our|you|your|it|this|that|please|kindly"
        r"|could|can|would|will|also|provide|tell|give|share|specify|send|just|now|with|need|know|have|do|does|did"
        r"|first|then|help|assist|thank|thanks|sorry|sure|great|again|what|which|who|whom|whose|where|when|how)\b",
        re.IGNORECASE,
    ),
)

_THINGS: Final = "(?:任务|工作|步骤|事项|部分|内容|事情|项目|要求)"

CHINESE: Final = Phrases(
    asks=re.compile(
        "什么|哪[个些里位种天家儿]|谁|多少|几[个点号岁次位天]|何时|怎样|怎么称呼"
        "|(?:请|麻烦)(?:您|你)?(?:再|也)?(?:提供|告诉|告知|说明|给出|发送|发给|输入|填写)"
        "|(?:能否|能不能|可否|可以)(?:请)?(?:您|你)?(?:再)?(?:提供|告诉|告知|说明|发送)"
        "|我们?(?:还|也)?需要(?:知道|了解|您的|你的)"
    ),
    polite=re.compile("请|麻烦|需要"),
    open_ended=re.compile(
        "还有(?:什么|其他|别的)|其他(?:问题|需要|要求)|别的(?:问题|需要|要求)|需要我|要我|要不要|是否|确认|继续"
        "|我(?:应该|该|可以|能|还能)|如果|接下来|下一步|希望我|更(?:喜欢|倾向)"
    ),
    no_answer=re.compile("不知道|不记得|不清楚|不确定|不太|不能|不想|忘|没有|没法|无法|为什么|什么意思|哪里"),
    done=re.compile(
        rf"(?:^|[。！？!?，,；;：:\s])(?:好的?[，,]?)?(?:我们?)?(?:已经?)?(?:把)?(?:全部|所有|一切|整个|这些|这个)?的?{_THINGS}?"
        "(?:也|都|均|现在)?(?:全部|全都)?(?:已经?)?(?:全部|全都|顺利|成功)?(?:完成|做完|办完|弄完|搞定|结束)了?"
        rf"(?:(?:全部|所有|一切|整个|这些)的?{_THINGS}?)?[啦]?(?=\s*(?:$|[。！!.；;\n]))",
        re.MULTILINE,
    ),
    not_done=re.compile(
        "还(?:没|未|剩|有|差|需)|尚未|未完成|没(?:有)?(?:做|完)|除了|除外|部分完成|剩余|剩下|但是?|待办"
    ),
    claim=re.compile(
        "(?:已经?|我们?|并)[^。！？!?\n]{0,60}?(?:写入|写到|写进|写好|写了|保存|存到|存为|存入|存在|创建|生成|新建|添加|导出)"
        + _REST_OF_SENTENCE
    ),
    file=re.compile(r"(?:到|为|至|在|入|进|了|文件|名叫|名为|[:：])\s*[`'\"“「《]?" + _FILE_NAME),
    failed=re.compile(r"\W*(?:错误|出错|失败|异常)"),
    stop=re.compile(
        "请问|请|麻烦|您的|你的|我的|您|你|我们|我|的|是|为|多少|什么|哪[个些里位种天家]?|谁|几|吗|呢|啊|吧|告诉|告知|提供|说明|发送|一下"
        "|能否|能不能|可否|可以|谢谢|感谢|抱歉|对不起|再|还|也|需要|知道|了解|有|在|和|与|给"
    ),
)

LANGUAGES: Final = (ENGLISH, CHINESE)
