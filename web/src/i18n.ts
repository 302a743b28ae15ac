// The page's texts: English is the key, Chinese the translation.

const texts = {
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
  "Attach files": "添加附件",
  "Attached files": "附件",
  "A file could not be uploaded. Remove it, then send again.": "有文件未能上传。请移除后再发送。",
  "Files can be attached only over HTTPS or on this machine.": "只能通过 HTTPS 或在本机添加附件。",
  "Queued": "排队中",
  "Remove": "移除",
  "running": "运行中",
  "queued": "排队中",
  "waiting": "等待决定",
  "complete": "完成",
  "failed": "失败",
  "cancelled": "已取消",
  "error": "错误",
  "approval": "等待决定",
  "open": "进行中",
  "Reasoning": "思考过程",
  "Arguments": "参数",
  "Changed to": "已改为",
  "arguments changed": "参数已修改",
  "Result": "结果",
  "Change": "改动",
  "{a} lines added, {b} removed": "新增 {a} 行，删除 {b} 行",
  "At least {a} lines added, {b} removed; {c} not compared": "至少新增 {a} 行，删除 {b} 行；{c} 行未比较",
  "writing the call": "正在写调用",
  "needs your decision": "需要您决定",
  "done": "完成",
  "Copy": "复制",
  "Copied": "已复制",
  "Approve": "批准",
  "Reject": "拒绝",
  "Answer": "回答",
  "Decline": "拒绝回答",
  "Approve this call?": "批准这次调用？",
  "The agent asks": "智能体提问",
  "Reason or instruction for the model (optional)": "给模型的理由或指示（可选）",
  "Edit arguments": "修改参数",
  "Keep the arguments": "保留原参数",
  "The arguments are not a JSON object": "参数不是 JSON 对象",
  "Do not ask about this tool again": "以后不再询问此工具",
  "The connection is lost. Trying again…": "连接已断开，正在重试…",
  "Log in": "登录",
  "Token": "令牌",
  "Open the address that `zeus serve` printed, or paste its token or your key here.": "打开 `zeus serve` 打印的地址，或把令牌或您的密钥粘贴到这里。",
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
  "Delete this session with all its messages, its sub-agents' sessions, and the files and memories that it has alone?": "删除此会话及其全部消息、子智能体的会话，以及仅属于它的文件和记忆？",
  "Cancel": "取消",
  "Files that tools wrote": "工具写入的文件",
  "No tool of this session wrote a file that is still there.": "此会话的工具没有写入任何仍然存在的文件。",
  "Plan of this session": "此会话的计划",
  "Export as Markdown": "导出为 Markdown",
  "Export as JSON": "导出为 JSON",
  "This session is archived.": "此会话已归档。",
  "Archived sessions": "已归档的会话",
  "No session is archived": "没有已归档的会话",
  "Ask the model again": "再次询问模型",
  "Fork here": "从这里分叉",
  "Begin a session as this one was when this step was asked": "从这一步提问时的状态开始新会话",
  "More": "更多",
  "Go back to here": "回到这里",
  "Go back to this message? Later messages are set aside.": "回到这条消息？之后的消息会被搁置。",
  "Why did it forget?": "它为什么忘了？",
  "What would you like to do?": "您想做什么？",
  "Nothing to show yet: the first model call makes the first step.": "暂无内容：第一次模型调用会产生第一步。",
  "Step {n}": "第 {n} 步",
  "of {n}": "共 {n} 步",
  "Tokens sent per step, by source": "每步发送的词元数（按来源）",
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
  "Output": "输出",
  "Cache read": "缓存读取",
  "Cache written": "缓存写入",
  "Cost": "费用",
  "Session cost": "会话费用",
  "Model": "模型",
  "Time": "用时",
  "Messages": "消息",
  "Runway": "剩余空间",
  "{n} steps until the window is full": "再过 {n} 步窗口将满",
  "{n} steps until the next compaction": "再过 {n} 步进行下次压缩",
  "P50 {a} · P90 {b} per step": "每步 P50 {a} · P90 {b}",
  "not known yet": "尚不可知",
  "What changed before this step": "这一步之前发生的变化",
  "No policy changed anything.": "没有策略改动任何内容。",
  "admitted": "已采纳",
  "refused": "已拒绝",
  "What was sent": "发送的内容",
  "Search what was sent or forgotten": "搜索已发送或已遗忘的内容",
  "Text": "文本",
  "Source": "来源",
  "Tokens": "词元数",
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
  "{n} tokens": "{n} 个词元",
  "{a} of {b} tokens": "{a} / {b} 个词元",
  "Previous step": "上一步",
  "Next step": "下一步",
  "Tasks": "任务",
  "{a} of {b} done": "已完成 {a}/{b}",
  "Sub-agent": "子智能体",
  "Open its session": "打开其会话",
  "Its work": "其工作过程",
  "steps": "步",
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
  "Session": "会话",
  "Conversation": "对话",
  "Steps": "步骤",
  "compaction": "压缩",
  "Required": "必填",
  "Details": "详情",
  "show all": "显示全部",
  "1 more line below": "下方还有 1 行",
  "{n} more lines below": "下方还有 {n} 行",
  "show all {n} characters": "显示全部 {n} 个字符",
  "What if?": "如果换一种策略？",
  "Recompute this session under other policies. No model is called.": "用其他策略重新计算此会话，不调用任何模型。",
  "Texts that the last request should keep, one a line": "最后一次请求应保留的文本，每行一个",
  "Recompute": "重新计算",
  "Fork at step {n} with these policies": "用这些策略从第 {n} 步分叉",
  "This session has its own policies, in place of those of the config.": "此会话使用自己的策略，而不是配置中的策略。",
  "This session has the policies of its config.": "此会话使用配置中的策略。",
  "Back to the session": "返回会话",
  "Recomputing…": "正在重新计算…",
  "Largest request": "最大请求",
  "Compactions": "压缩次数",
  "Summaries": "摘要次数",
  "Refused as too large": "因过大而被拒绝",
  "Needed texts kept": "所需文本的保留",
  "Present policies": "当前策略",
  "Other policies": "其他策略",
  "Go back": "回退",
  "Trace": "追踪",
  "{n} more: search for them": "还有 {n} 个：请搜索",
  "Older ones are found by their words.": "更早的会话可按内容搜索。",
  "This session is a sub-agent's. Back to its parent": "这是子智能体的会话，返回上级会话",
  "Tool": "工具",
  "Memory": "记忆",
  "Knowledge": "知识库",
  "Plan": "计划",
  "You may use no agent of this service.": "您不能使用此服务的任何智能体。",
  "The agent has no memory: its config has no key `memory`.": "此智能体没有记忆：其配置中没有 `memory` 键。",
  "Memories": "记忆条目",
  "Quarantine": "隔离区",
  "Changes": "变更",
  "Profile": "画像",
  "New memory": "新记忆",
  "Search as the agent does": "按智能体的方式搜索",
  "Type": "类型",
  "Scope": "范围",
  "State": "状态",
  "What was true before": "以前成立的内容",
  "Nothing fits that.": "没有匹配的内容。",
  "Nothing is remembered yet.": "还没有记住任何内容。",
  "{n} memories that other members keep for themselves": "其他成员的 {n} 条私有记忆",
  "Similarity": "相似度",
  "Edit": "修改",
  "Archive": "归档",
  "Restore": "恢复",
  "Release": "放行",
  "Save": "保存",
  "Trust": "信任",
  "Subject": "主题",
  "Confidence": "置信度",
  "True": "有效期",
  "Saved": "保存于",
  "Last used": "上次使用",
  "Near": "相近",
  "History": "历史",
  "Version {n}": "版本 {n}",
  "It removes": "将移除",
  "It restores": "将恢复",
  "Delete this memory for good, with its history and what it replaced?": "永久删除此记忆、其历史及被它取代的记忆？",
  "These memories read like instructions. No model is shown them until you release them.": "这些记忆读起来像指令。在您放行之前，不会给任何模型看。",
  "Nothing is in quarantine.": "隔离区为空。",
  "Undo": "撤销",
  "{a} removed, {b} restored": "已移除 {a} 条，已恢复 {b} 条",
  "Models made these changes in the background, each from one answer.": "这些变更由模型在后台做出，每项来自一次回答。",
  "No model changed anything yet.": "还没有模型做过变更。",
  "Remove the memories that this change added, and restore those that it replaced?": "移除此变更添加的记忆，并恢复被它取代的记忆？",
  "Of the user": "用户画像",
  "Of the project": "项目画像",
  "Nothing is known yet.": "尚无内容。",
  "fact": "事实",
  "preference": "偏好",
  "skill": "技能",
  "habit": "习惯",
  "event": "事件",
  "context": "背景",
  "constraint": "约束",
  "decision": "决定事项",
  "user": "用户",
  "project": "项目",
  "session": "会话",
  "active": "有效",
  "archived": "已归档",
  "superseded": "已被取代",
  "all": "全部",
  "trusted": "可信",
  "quarantined": "已隔离",
  "extraction": "从对话提取",
  "There is no knowledge base yet. `zeus kb add NAME PATH` makes one.": "还没有知识库。可用 `zeus kb add NAME PATH` 创建。",
  "Search": "搜索",
  "the agent searches it": "智能体会搜索它",
  "Documents: {a} · passages: {b}": "文档 {a} 个 · 片段 {b} 个",
  "by meaning {n}": "按语义排第 {n}",
  "by words {n}": "按词语排第 {n}",
  "Documents": "文档",
  "Document": "文档",
  "Passages": "片段",
  "Size": "大小",
  "not finished": "未完成",
  "Added": "已添加",
  "Filter": "筛选",
  "Config": "配置",
  "Mode": "模式",
  "Instructions": "指令",
  "Digest": "摘要值",
  "Values": "配置值",
  "Parts": "组成",
  "Prompt": "提示词",
  "Edit and check": "修改并检查",
  "Filter by key, value or place": "按键、值或位置筛选",
  "Without defaults": "不含默认值",
  "Key": "键",
  "Value": "值",
  "Written at": "写于",
  "overridden": "已被覆盖",
  "default": "默认",
  "Middlewares": "中间件",
  "in their order: the first is the outermost": "按顺序：第一个在最外层",
  "none": "无",
  "Tools": "工具",
  "Category": "类别",
  "Access": "权限",
  "From": "来自",
  "Sub-agents": "子智能体",
  "Files": "文件",
  "Pattern": "模式",
  "What it executes": "它会执行的内容",
  "allowed": "已允许",
  "not allowed": "未允许",
  "The parts of the prompt that are the same in every session.": "在每个会话中都相同的提示词部分。",
  "Checking…": "正在检查…",
  "This config is valid": "配置有效",
  "This config is not valid": "配置无效",
  "As it is now": "还原为当前内容",
  "Nothing is written: copy the text into the file. Known secrets are shown as placeholders.": "不会写入文件：请把文本复制到文件中。已知的密钥以占位符显示。",
  "The file is not valid now, so its former content runs.": "文件目前无效，因此仍运行之前的内容。",
  "Text of the config": "配置文本",
  "Decision": "决定",
  "Draw from memories": "从记忆生成",
  "Read the memories again; what a person wrote stays": "重新读取记忆；手写的内容保持不变",
  "Give back to the memories": "改回由记忆生成",
  "What you write here is never overwritten. An empty field is drawn from memories again. Entries of a list are lines; of a decision: what | why | when.": "您在这里写的内容不会被覆盖。留空的字段会重新由记忆生成。列表每行一项；决定写作：内容 | 原因 | 时间。",
} as const;

/** Words of the API that people read: states, kinds, the fields of a profile. */
const words: Record<string, string> = {
  "interrupted": "已中断",
  "rolled-back": "已回退",
  "ai": "智能体",
  "knowledge_base": "知识库文档",
  "project_resource": "项目文件",
  "untrusted": "不可信",
  "stored": "保存",
  "imported": "导入",
  "restored": "恢复",
  "updated": "修改",
  "deleted": "删除",
  "released": "放行",
  "consolidation": "整理",
  "documents": "从文档提取",
  "undone": "已撤销",
  "warning": "警告",
  "hand": "手写",
  "rule": "按规则",
  "model": "由模型",
  "username": "称呼",
  "background": "背景",
  "profession": "职业",
  "communication_style": "交流风格",
  "response_format": "回答格式",
  "language_preference": "语言偏好",
  "characteristics": "特点",
  "content": "指令",
  "expertise_areas": "擅长领域",
  "programming_languages": "编程语言",
  "frequently_used_tools": "常用工具",
  "project_goal": "项目目标",
  "tech_stack": "技术栈",
  "constraints": "约束",
  "key_decisions": "关键决定",
  "team_conventions": "团队约定",
  "current_phase": "当前阶段",
  "concise": "简洁",
  "detailed": "详细",
  "technical": "技术性",
  "plain": "纯文本",
  "code": "代码",
  "section": "提示词段落",
  "tool schema": "工具定义",
  "summary": "摘要",
  "assistant": "智能体回复",
  "message": "消息",
  "reinforced": "加强",
  "duplicate": "重复",
  "conflict": "冲突",
  "unchanged": "未改动",
  "stop": "正常结束",
  "ok": "正常",
  "tool_calls": "调用工具",
  "length": "达到长度上限",
};

export type Key = keyof typeof texts;
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
  const text: string = current === "zh" ? texts[key] : key;
  return text.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ""));
}

/** A word of the API, such as a state: translated if it is known, as it is if not. */
export function word(text: string): string {
  if (current !== "zh") return text;
  return Object.hasOwn(words, text) ? words[text] : Object.hasOwn(texts, text) ? texts[text as Key] : text;
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

/** A time with its date, from ISO 8601. */
export function moment(iso: string): string {
  return new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "short" }).format(new Date(iso));
}

/** A moment to the second in the person's zone, which it names. */
export function exactMoment(milliseconds: number): string {
  const parts = { year: "numeric", month: "short", day: "numeric", hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "short" } as const;
  return new Intl.DateTimeFormat(locale(), parts).format(new Date(milliseconds));
}

/** How long it is until a moment: "in 58 seconds". */
export function left(milliseconds: number): string {
  const words = new Intl.RelativeTimeFormat(locale());
  const seconds = Math.trunc(milliseconds / 1000), size = Math.abs(seconds);
  if (size < 120) return words.format(seconds, "second");
  if (size < 7200) return words.format(Math.trunc(seconds / 60), "minute");
  return size < 172_800 ? words.format(Math.trunc(seconds / 3600), "hour") : words.format(Math.trunc(seconds / 86_400), "day");
}

export function seconds(value: number): string {
  return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(value < 10 ? 1 : 0)} s`;
}
