"""Which values of a configuration are masked in what tools answer."""

from __future__ import annotations

import textwrap
from pathlib import Path

from cordboard.config.load import read

ENVIRONMENT = {
    "WORD": "Zurich",
    "ODD": "od-d3-value",
    "SHOP_KEY": "swordfish",
    "CRM_SECRET": "crm-secret-1",
    "TENANT": "tenant-from-outside-9",
    "HOST": "shop7.example.com",
    "OPENAI_API_KEY": "sk-from-the-environment",
}
EVERYWHERE = """
    admin: {token: admintoken}
    asterisk: {password: ari-password}
    providers: {openai: {type: openai_realtime}, local: {type: pipeline}}
    contexts: {demo: {prompt: "Welcome to ${WORD}, ${HOST}. ${CRM_SECRET}"}}
    tools:
      look:
        kind: http
        url: "https://${HOST}/v1?appid_key=app1-77&city={pin}&sort_key=departure"
        headers: {Authorization: Bearer hushhush, Accept: application/json, X-Day: "2026-01-31",
                  X-Store: "store-17", X-Tenant: "${TENANT}", X-City: "${WORD}",
                  X-Api-Key: letters}
        query: {api_key: literalkey, city: Zurich, order_key: arrival, pin: "{pin}",
                signed: "${SHOP_KEY}"}
        parameters: {pin: {type: string}}
        sign_with: signing-key
    mcp:
      servers:
        a:
          command: [sh]
          env: {CITY: "${WORD}", ODD: "${ODD}", MODE: metric-9, A_TOKEN: plaintoken}
        b:
          transport: http
          url: "https://tools.example.com/a1b2c3d4e5f6a7b8c9d0/mcp"
          auth: {type: bearer, token: bearer-token}
    """


def test_what_is_masked_and_what_is_not() -> None:
    config = read(textwrap.dedent(EVERYWHERE), Path("ai-agent.yaml"), ENVIRONMENT).config
    assert config.secrets == {
        "admintoken",
        "ari-password",
        "crm-secret-1",
        "Bearer hushhush",
        "tenant-from-outside-9",
        "letters",
        "literalkey",
        "app1-77",
        "swordfish",
        "signing-key",
        "od-d3-value",
        "plaintoken",
        "a1b2c3d4e5f6a7b8c9d0",
        "bearer-token",
        "sk-from-the-environment",
    }
    assert "sk-from-the-environment" not in repr(config)


def test_a_header_may_be_an_identifier_and_the_log_still_masks_it() -> None:
    """`X-Store: store-17` in the file: a result may name the store, and no log shows the header."""
    loaded = read(textwrap.dedent(EVERYWHERE), Path("ai-agent.yaml"), ENVIRONMENT)
    assert "store-17" not in loaded.config.secrets
    assert "store-17" in loaded.secrets
    assert "store-17" not in repr(loaded.config)
