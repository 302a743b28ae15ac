"""The grammar's Chinese characters that Traditional Chinese writes otherwise."""

from __future__ import annotations

from typing import Final

_PAIRS: Final = (
    "與与兩两個个為为爲为從从們们僅仅會会傾倾養养寫写別别協协厭厌變变後后嗎吗噸吨聽听員员場场塊块處处復复複复夠够將将盡尽儘尽"
    "層层歲岁應应開开張张惡恶斷断無无時时條条來来棟栋樓楼歡欢沒没潔洁點点熱热愛爱現现禮礼種种簡简類类級级練练組组細细經经絕绝"
    "職职勝胜認认討讨讓让議议記记論论識识話话該该詳详說说説说請请讀读課课調调談谈較较轉转車车輛辆達达過过還还這这遲迟採采錯错"
    "門门間间隊队項项須须題题頁页遷迁線线戶户號号機机總总櫃柜換换學学當当計计約约著着釐厘於于隻只萬万區区業业給给貓猫漲涨減减"
    "辦办歷历實实際际"
)
SIMPLIFIED: Final = str.maketrans(_PAIRS[::2], _PAIRS[1::2])
"""For ``str.translate``; each character stays one, so that places in the text do not move."""
