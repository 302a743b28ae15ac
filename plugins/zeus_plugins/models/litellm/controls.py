"""The parameter names that litellm reserves: they control litellm and are not part of the provider's request.

``tests/plugins_bundled/models/test_extra.py`` compares them with the installed litellm.
"""

from __future__ import annotations

from typing import Final

SIGN_IN: Final = frozenset(
    """
    allowed_openai_params anthropic_disable_workload_identity_federation anthropic_federation_rule_id
    anthropic_federation_workspace_id anthropic_identity_source anthropic_identity_token
    anthropic_identity_token_file anthropic_issuer_audience anthropic_issuer_signing_key_ref
    anthropic_issuer_subject anthropic_issuer_ttl_seconds anthropic_issuer_url anthropic_keycloak_auth_method
    anthropic_keycloak_client_id anthropic_keycloak_client_secret_ref anthropic_keycloak_scope
    anthropic_keycloak_token_url anthropic_organization_id anthropic_service_account_id api_version
    aws_batch_role_arn azure_ad_token_provider azure_password azure_scope azure_username bedrock_tags client_id
    client_secret data_residency metadata openai_identity_provider_id openai_identity_token_file
    openai_service_account_id region_name s3_region_name tenant_id use_xai_oauth
    """.split()
)
"""Reserved names that ``extra`` may contain: they set credentials or addresses, or pass a parameter on."""

CONTROLS: Final = frozenset(
    """
    acompletion adaptive_router_config adaptive_router_default_model aembedding aimg_generation
    allm_passthrough_route allow_client_keepalive_override allowed_model_region api_base api_key arize_api_key
    arize_error_sampling_rate arize_otlp_protocol arize_space_id arize_space_key arize_success_sampling_rate
    assistant_continue_message async_call atext_completion attempted_targets auto_router_config
    auto_router_config_path auto_router_default_model auto_router_embedding_model auto_router_max_input_chars
    auto_router_model_compression auto_router_routing_compression azure base_model bos_token budget_duration
    cache cache_key caching caching_groups client client_side_timeout complete_response completion_call_id
    complexity_router_config complexity_router_default_model configurable_clientside_auth_params
    context_window_fallback_dict cooldown_time custom_llm_provider custom_prompt_dict dd_agent_host
    dd_agent_port dd_api_key dd_site default_api_key_rpm_limit default_api_key_tpm_limit
    disable_add_transform_inline_image_block enable_json_schema_validation enable_prompt_caching
    enable_tag_filtering ensure_alternating_roles eos_token fallback_depth fallbacks fastest_response
    final_prompt_value fireworks_forward_user_id force_timeout gcs_bucket_name gcs_path_service_account
    guardrails headers hf_model_name humanloop_api_key id itpm keepalive_seconds langfuse_environment
    langfuse_host langfuse_prompt_version langfuse_public_key langfuse_secret langfuse_secret_key
    langfuse_span_scope langsmith_api_key langsmith_base_url langsmith_project langsmith_sampling_rate
    langsmith_tenant_id litellm_call_id litellm_credential_name litellm_disabled_callbacks litellm_logging_obj
    litellm_metadata litellm_request_debug litellm_session_id litellm_system_prompt litellm_trace_id
    litellm_trusted_callback_vars log_client_error_tracebacks logger_fn max_agentic_loops max_budget
    max_fallbacks max_file_size_mb max_parallel_requests max_retries merge_reasoning_content_in_choices
    mock_response mock_timeout model_alias_map model_config model_file_id_mapping model_info model_list
    newrelic_api_key newrelic_region no-log num_retries order otpm output_vector_size posthog_api_key
    posthog_api_url preset_cache_key prompt_environment prompt_id prompt_label prompt_variables prompt_version
    provider_affinity_header provider_specific_header proxy_server_request quality_router_config
    quality_router_default_model regional_endpoint_uplift_multiplier regional_processing_uplift_multiplier_eu
    regional_processing_uplift_multiplier_us request_timeout retry_policy retry_strategy roles routing_strategy
    rpm rust s3_access_key_id s3_bucket_name s3_bucket_owner s3_encryption_key_id s3_endpoint_url
    s3_output_bucket_name s3_secret_access_key search_tool_name secret_fields self shared_session
    signoz_ingestion_endpoint signoz_ingestion_key silent_model ssl_verify stream_chunk_size
    stream_response stream_timeout
    stream_timeout_by_service_tier supports_system_message tag_regex tags text_completion tiered_pricing
    timeout_by_service_tier tpm ttl turn_off_message_logging use_chat_completions_api use_client
    use_in_pass_through use_litellm_proxy user_continue_message verbose wandb_api_key weave_project_id weight
    """.split()
)
"""litellm's other reserved names, except prices (``cost`` in the name) and internal ones (a leading underscore)."""
