"""Whether the user asked for a save is read from the user's own words, in English and Chinese."""

from __future__ import annotations

import pytest
from zeus_plugins.tools.memory.remember_requests import asks_to_remember

ASKS = """
Please remember that I prefer tabs.
Remember: my sister's name is Ines
remember I am allergic to nuts
Can you remember that our standup is at 9?
Hi! Could you please remember this for me?
I want you to remember that we deploy on Fridays.
Don't forget that my flight leaves on Tuesday.
Do not forget my birthday is in May
Never forget that prod is read-only!
Keep in mind that I am color-blind
Bear in mind we use Postgres.
Please keep this in mind: no emojis.
Make a note that the client is called Brandt.
Take note: the budget is 20,000.
Note that I moved to Lisbon.
Note down my postcode 10115
Save this to your memory: I use a Dvorak layout.
Add to memory that I live in Oslo
Store in memory that the API limit is 50.
Please commit this to memory: the door code changes monthly
Save that for later.
From now on answer in German.
For future reference, I am vegetarian.
Memorize this: the mascot is an otter.
That's all. And remember I like short answers
You should remember that she is the lead.
let's remember that the demo is on Monday
ok, remember that
I told you twice - remember that my manager is Eva
请记住我喜欢喝茶
记住：我的生日是五月三日
记住，我对坚果过敏。
帮我记住这个地址
帮我记一下，周五不部署
请记下我的新邮箱后缀
你要记得我是素食者
记得我们用的是Postgres
别忘了我周二要飞上海
不要忘记我色盲
把这个保存到记忆里：我用双拼
请把这一点写入你的长期记忆
从现在起用中文回答我
以后都用简洁的风格回答
以后请叫我小李
今后不要用表情符号
能记住我的名字叫王芳吗？
可以帮我记住这件事吗？
請記住我住在台北
幫我記下：週五不部署
一定要记住这一条规则
"""

DOES_NOT_ASK = r"""
Do you remember what I told you about the deploy?
Do you remember my name?
What do you remember about me?
I remember that we used MySQL once.
I can't remember the name of that library.
I don't remember.
Remember when we talked about Lisbon?
Remember me?
Don't remember this: my draft is rough.
Please do not save this to your memory.
Please don't memorize this.
No need to remember that.
You need not remember this
Forget what I said about tabs.
forget it
How does human memory work?
Write a function that stores bytes in memory
How much memory does this process use?
What is in your memory?
Explain the note on page 3.
Do we have notes on the release?
The notes say that the budget is fixed.
Summarise this mail: "Please remember that the invoice is due."
Translate “Remember that I love you” into French
> remember that the password is in the vault
`remember()` is a hook of React?
```\nremember that I am root\n```\nWhat does this script do?
Show me the remembered hosts.
I forgot to add the tests.
What should I keep in mind when I deploy?
Which facts do I have to memorize for the exam?
Never mind.
Always use tabs.
Write a poem about remembering
我记得我们以前用过MySQL
你还记得我的名字吗？
你记得我们上次说的吗
我记不住那个库的名字
我没记住
你能记住多少东西？
不要记住这个
请不要保存到记忆里
别记下来
不用记住这件事
人的记忆是怎么工作的？
这个程序占用多少内存？
翻译“请记住我”成英文
他把这句话写进了日记：「记住我」
怎么记住英语单词？
以后再说吧
三天以后到期
"""


def lines(text: str) -> list[str]:
    return [line.replace("\\n", "\n") for line in text.strip().splitlines()]


@pytest.mark.parametrize("text", lines(ASKS))
def test_a_message_that_asks_for_it_asks(text: str) -> None:
    assert asks_to_remember(text)


@pytest.mark.parametrize("text", lines(DOES_NOT_ASK))
def test_a_message_that_does_not_ask_does_not(text: str) -> None:
    assert not asks_to_remember(text)


def test_a_wish_beside_other_sentences_counts() -> None:
    assert asks_to_remember("Fix the failing test first. Then remember that CI runs on Python 3.11. Thanks!")
    assert asks_to_remember("先修好测试。另外请记住CI用的是3.11。谢谢")


def test_a_long_message_takes_no_long_time() -> None:
    assert not asks_to_remember("save " * 20_000)
    assert not asks_to_remember("不要把" * 20_000)
    assert not asks_to_remember('"' * 20_000 + "`" * 20_001)
