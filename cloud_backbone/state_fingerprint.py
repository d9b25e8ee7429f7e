# SPDX-License-Identifier: Apache-2.0
"""What the snapshots of a served model rest on. Knows the interface of models, and no session."""

from __future__ import annotations

from cloud_backbone.agent_words import AGENT_TOKENS
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.kv_state.fingerprint import Fingerprint, fingerprint_of, NONE
from cloud_backbone.model.backbone import Backbone


def fingerprint_for(backbone: Backbone, policy: Policy) -> Fingerprint:
    """Return the fingerprint of a model and a policy.

    A model that is no network of torch is told apart by its own fingerprint alone.
    """
    if backbone.network is not None:
        return fingerprint_of(
            backbone.network, policy, backbone.processor, tools=list(AGENT_TOKENS),
            weights=backbone.fingerprint,
        )
    return Fingerprint(
        weights=backbone.fingerprint, config=NONE, tokenizer=NONE, chat_template=NONE,
        tool_schema=NONE, image_processor=NONE, adapters=NONE, rope=NONE, dtype=NONE,
        cache_policy=policy.name, kv_layout=NONE, library=NONE,
    )
