"""The parameters of a request that choose neither an account, a host nor a file: ``extra`` may set them unasked.

Any other name in ``extra`` needs the user's permission, since litellm reads sign-ins and connections from there too.
``tests/plugins_bundled/models/test_extra.py`` compares the names with the installed litellm.
"""

from __future__ import annotations

from typing import Final

CHAT: Final = frozenset(
    """
    allowed_openai_params api_version context_management frequency_penalty include_server_side_tool_invocations
    logit_bias max_completion_tokens metadata parallel_tool_calls prediction presence_penalty prompt_cache_key
    prompt_cache_retention reasoning_effort safety_identifier seed service_tier stop store thinking tool_choice user
    verbosity web_search_options
    """.split()
)
"""Those that litellm's ``completion`` names."""

USUAL: Final = frozenset(
    """
    chat_template_kwargs enable_thinking guided_choice guided_grammar guided_json guided_regex ignore_eos keep_alive
    length_penalty min_p min_tokens mirostat mirostat_eta mirostat_tau num_ctx num_gpu num_predict num_thread reasoning
    repeat_last_n repeat_penalty repetition_penalty safety_settings skip_special_tokens stop_token_ids think
    thinking_budget top_a top_k typical_p
    """.split()
)
"""Those of other servers' requests."""

EMBEDDING: Final = frozenset(
    """
    embedding_type embedding_types encoding_format input_type keep_alive late_chunking normalized num_ctx output_dtype
    task task_type title truncate truncation user
    """.split()
)
"""Those of a request for vectors."""
