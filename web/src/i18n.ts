// The page's texts: English is the key, Chinese the translation.

const zh = {
  "Sessions": "会话",
  "New session": "新会话",
  "Search sessions": "搜索会话",
  "No session yet": "还没有会话",
  "No session matches": "没有匹配的会话",
  "Agent": "智能体",
  "Chat": "对话",
  "Context": "上下文",
  "Send": "发送",
  "Stop": "停止",
  "Stopping…": "正在停止…",
  "Queue": "排队",
  "Message": "消息",
  "Message {agent}": "给 {agent} 发消息",
  "Queued": "排队中",
  "Remove": "移除",
  "running": "运行中",
  "queued": "排队中",
  "waiting": "等待决定",
  "complete": "完成",
  "failed": "失败",
  "cancelled": "已取消",
  "error": "错误",
  "interrupted": "已中断",
  "approval": "等待决定",
  "open": "进行中",
  "rolled-back": "已回退",
  "Reasoning": "思考过程",
  "Arguments": "参数",
  "Result": "结果",
  "writing the call": "正在写调用",
  "needs your decision": "需要您决定",
  "done": "完成",
  "Copy": "复制",
  "Copied": "已复制",
  "Approve": "批准",
  "Reject": "拒绝",
  "Answer": "回答",
  "Decline": "不回答",
  "Approve this call?": "批准这次调用？",
  "The agent asks": "智能体提问",
  "Reason for the model (optional)": "给模型的理由（可选）",
  "Edit arguments": "修改参数",
  "Keep the arguments": "保留原参数",
  "The arguments are not a JSON object": "参数不是 JSON 对象",
  "Do not ask about this tool again": "以后不再询问此工具",
  "Expires {time}": "{time} 到期",
  "Files that it would change": "将要修改的文件",
  "Whole file": "整个文件",
  "You": "您",
  "The connection is lost. Trying again…": "连接已断开，正在重试…",
  "The service has a new token": "服务有了新的令牌",
  "Log in": "登录",
  "Token": "令牌",
  "Open the address that `zeus serve` printed, or paste its token here.": "打开 `zeus serve` 打印的地址，或把其中的令牌粘贴到这里。",
  "This token is not valid.": "此令牌无效。",
  "Menu": "菜单",
  "Close": "关闭",
  "Settings": "设置",
  "Language": "语言",
  "Theme": "主题",
  "System": "跟随系统",
  "Light": "浅色",
  "Dark": "深色",
  "Keyboard": "键盘",
  "Log out": "退出登录",
  "Newest": "最新",
  "Delete": "删除",
  "Delete this session with all its messages?": "删除此会话及其全部消息？",
  "Cancel": "取消",
  "Export": "导出",
  "More": "更多",
  "Go back to here": "回到这里",
  "Go back to this message? Later messages are set aside.": "回到这条消息？之后的消息会被搁置。",
  "Why did it forget?": "为什么忘了？",
  "What would you like to do?": "您想做什么？",
  "Nothing to show yet: the first model call makes the first step.": "暂无内容：第一次模型调用会产生第一步。",
  "Step {n}": "第 {n} 步",
  "step {n}": "第 {n} 步",
  "of {n}": "共 {n} 步",
  "Tokens sent per step, by source": "每步发送的标记数（按来源）",
  "Cache per step": "每步缓存",
  "Cost per step": "每步费用",
  "Cache": "缓存",
  "Not cached": "未缓存",
  "Model calls": "模型调用",
  "Policies' calls": "策略的调用",
  "prompt and tools": "提示词与工具",
  "limit": "上限",
  "This step sent nothing of it.": "这一步没有发送它。",
  "Sent": "已发送",
  "Input limit": "输入上限",
  "Output": "输出",
  "Cache read": "缓存读取",
  "Cache written": "缓存写入",
  "Cost": "费用",
  "Session cost": "会话费用",
  "Model": "模型",
  "Time": "用时",
  "Messages": "消息",
  "Runway": "余量",
  "{n} steps until the window is full": "还有 {n} 步到达窗口上限",
  "{n} steps until the next compaction": "还有 {n} 步到下次压缩",
  "P50 {a} · P90 {b} per step": "每步 P50 {a} · P90 {b}",
  "not known yet": "尚不可知",
  "What changed before this step": "这一步之前的变化",
  "No policy changed anything.": "没有策略改动任何内容。",
  "admitted": "已采纳",
  "refused": "已拒绝",
  "What was sent": "发送的内容",
  "Search what was sent or forgotten": "搜索已发送或已遗忘的内容",
  "Text": "文本",
  "Part": "部分",
  "Source": "来源",
  "Tokens": "标记数",
  "Share": "占比",
  "shown": "已发送",
  "replaced": "已缩短",
  "left": "已移除",
  "later": "之后才出现",
  "set aside": "已搁置",
  "This step's request contains it, unchanged.": "这一步的请求包含它，且未改动。",
  "It came after this step.": "它在这一步之后出现。",
  "Nobody said that in this session.": "本会话中没有出现过。",
  "Removed from step {n} on": "自第 {n} 步起被移除",
  "Shortened from step {n} on": "自第 {n} 步起被缩短",
  "The original": "原文",
  "Show in chat": "在对话中显示",
  "{n} tokens": "{n} 个标记",
  "{a} of {b} tokens": "{b} 个标记中的 {a} 个",
  "Previous step": "上一步",
  "Next step": "下一步",
  "Tasks": "任务",
  "{a} of {b} done": "已完成 {a}/{b}",
  "Sub-agent": "子智能体",
  "Open its session": "打开其会话",
  "Its work": "其工作过程",
  "steps": "步",
  "tokens in": "输入标记",
  "tokens out": "输出标记",
  "Original size": "原始大小",
  "View": "查看",
  "Table": "表格",
  "Chart": "图表",
  "search": "搜索",
  "new session": "新会话",
  "send": "发送",
  "new line": "换行",
  "chat or context": "对话或上下文",
  "previous or next step": "上一步或下一步",
  "The page could not show this: {message}": "页面无法显示：{message}",
  "{n} messages": "{n} 条消息",
  "Session": "会话",
  "Conversation": "对话",
  "Steps": "步骤",
  "compaction": "压缩",
  "Required": "必填",
  "Continue": "继续",
  "Details": "详情",
  "show all": "显示全部",
  "What if?": "如果换一种策略？",
  "Recompute this session under other policies. No model is called.": "用其他策略重新计算此会话，不调用任何模型。",
  "Texts that the last request should keep, one a line": "最后一次请求应保留的文本，每行一个",
  "Recompute": "重新计算",
  "Recomputing…": "正在重新计算…",
  "Largest request": "最大请求",
  "Compactions": "压缩次数",
  "Summaries": "摘要次数",
  "Refused as too large": "因过大被拒绝",
  "Needed texts kept": "保留的所需文本",
  "Present policies": "当前策略",
  "Other policies": "其他策略",
  "Go back": "回退",
  "Trace": "轨迹",
  "{n} more: search for them": "还有 {n} 个：请搜索",
  "This session is a sub-agent's. Back to its parent": "这是子智能体的会话，返回上级会话",
  "Tool": "工具",
  "Decision": "决定",
} as const;

export type Key = keyof typeof zh;
export type Language = "en" | "zh";

let current: Language = "en";

export function initialLanguage(): Language {
  const kept = localStorage.getItem("language");
  if (kept === "en" || kept === "zh") return kept;
  return browserLanguage();
}

export function browserLanguage(): Language {
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export function setLanguage(language: Language): void {
  current = language;
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
}

export function language(): Language {
  return current;
}

export function t(key: Key, values: Record<string, string | number> = {}): string {
  const text: string = current === "zh" ? zh[key] : key;
  return text.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ""));
}

/** A word of the API, such as a state: translated if it is known, as it is if not. */
export function word(text: string): string {
  return current === "zh" && text in zh ? zh[text as Key] : text;
}

const locale = (): string => (current === "zh" ? "zh-CN" : "en");

export function number(value: number): string {
  return new Intl.NumberFormat(locale()).format(Math.round(value));
}

/** 12,345 as 12.3k: for places where the exact number does not matter. */
export function short(value: number): string {
  if (value < 1000) return String(Math.round(value));
  if (value < 1_000_000) return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

export function money(usd: number | null | undefined): string {
  if (usd === null || usd === undefined) return "–";
  return `$${usd === 0 ? "0" : usd.toFixed(usd < 0.01 ? 5 : usd < 1 ? 4 : 2)}`;
}

export function when(milliseconds: number): string {
  const date = new Date(milliseconds);
  const today = new Date().toDateString() === date.toDateString();
  return new Intl.DateTimeFormat(locale(), today ? { timeStyle: "short" } : { dateStyle: "medium" }).format(date);
}

export function seconds(value: number): string {
  return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(value < 10 ? 1 : 0)} s`;
}
