"""Literal secrets in a text: hidden when it is shown, back in their place when it is published."""

from __future__ import annotations

from pathlib import Path

import pytest

from cordboard.config.edit.holes import Hidden, hide, put_back, secret_values
from cordboard.errors import ConfigError, EditRefused

TEXT = """\
# hunter2-comment
admin: {token: hunter2-admin}   # why
asterisk:
  password: 'hunter2''s ari'
  url: http://127.0.0.1:8088
contexts:
  demo: {greeting: Hello., provider: cloud}
providers:
  cloud:
    type: pipeline
    brain:
      {type: openai_chat, model: m, max_tokens: 500, api_key: "${KEY:-none}"}
mcp:
  servers:
    shop:
      transport: http
      url: https://example.org/mcp/hunter2abcdef0123456789/x
      headers: {X-Key: "hunter2-header"}
"""
PATH = Path("a.yaml")


def known(text: str) -> frozenset[str] | None:
    return secret_values(text, PATH, {})


def hidden(text: str = TEXT) -> Hidden:
    return hide(text, known(text))


def test_every_literal_secret_is_a_hole_and_all_else_stays() -> None:
    shown = hidden()
    assert known(TEXT) is not None, "the text can be loaded"
    expected = TEXT
    for number, secret in enumerate(
        ["hunter2-admin", "'hunter2''s ari'", "hunter2abcdef0123456789", '"hunter2-header"'], 1
    ):
        assert secret in shown.secrets
        expected = expected.replace(secret, f"«secret:{number}»")
    assert shown.text == expected
    assert put_back(shown.text, shown, known) == TEXT


def test_a_text_that_cannot_be_loaded_hides_by_the_names_of_keys() -> None:
    text = TEXT.replace("greeting", "greting")
    shown = hidden(text)
    assert known(text) is None
    for secret in ("hunter2-admin", "ari'", "hunter2-header"):
        assert secret not in shown.text
    assert "max_tokens: 500" in shown.text
    assert "${KEY:-none}" in shown.text


def test_a_secret_field_with_an_ordinary_name_is_hidden_in_a_text_that_cannot_be_loaded() -> None:
    text = """\
post_call: {webhook: {sign_with: whsec-hunter2}}
anywhere: {access_key_id: hunter2-akia, database: "postgresql://h/hunter2"}
"""
    shown = hidden(text)
    assert known(text) is None
    assert ("hunter2" in shown.text, len(shown.secrets)) == (False, 3)


def test_holes_keep_their_numbers_when_more_secrets_are_known() -> None:
    text = "\ufeff# was: hunter2-admin\n" + TEXT.partition("mcp:")[0]
    before = hide(text, None)
    after = hide(text, known(text), earlier=before.spans)
    assert ("# was: hunter2-admin" in before.text, before.by_names) == (True, True)
    assert ("hunter2-admin" in after.text, after.by_names) == (False, False)
    assert after.secrets[: len(before.secrets)] == before.secrets
    assert put_back(after.text, after, known) == text


def test_a_secret_of_figures_is_hidden_in_a_text_that_cannot_be_loaded() -> None:
    text = TEXT.replace("hunter2-admin", '"4815162342"').replace("greeting", "greting")
    text = text.replace("'hunter2''s ari'", "48151623")
    shown = hidden(text)
    assert known(text) is None
    assert "48151623" not in shown.text
    assert "max_tokens: 500" in shown.text


def test_without_the_environment_texts_of_servers_and_keys_in_addresses_are_hidden() -> None:
    text = """\
asterisk: {url: "${ARI_URL}"}
mcp:
  servers:
    shop:
      env: {SHOP_ID: hunter2-17, LANG: en}
      url: https://anna:hunter2@example.org/mcp/hunter2abcdef0123456789/x?id=hunter2
"""
    shown = hidden(text)
    assert known(text) is None
    assert "hunter2" not in shown.text
    assert ("LANG: en" in shown.text, "${ARI_URL}" in shown.text) == (True, True)
    assert put_back(shown.text, shown, known) == text


def test_a_secret_is_hidden_in_comments_and_however_it_is_escaped() -> None:
    text = TEXT.replace("Hello.", '"My key is hunter2\\x2dadmin."') + "# was: hunter2-header\n"
    shown = hidden(text)
    assert ("x2dadmin" in shown.text, "hunter2-header" in shown.text) == (False, False)
    assert put_back(shown.text, shown, known) == text


def test_a_text_that_is_no_yaml_is_not_shown() -> None:
    with pytest.raises(ConfigError):
        hide("token: [hunter2\n", None)


def test_a_hole_may_be_deleted_or_moved_to_another_secret_field() -> None:
    shown = hidden()
    deleted = shown.text.replace("admin: {token: «secret:1»}", "admin: {}")
    assert put_back(deleted, shown, known) == TEXT.replace(
        "admin: {token: hunter2-admin}", "admin: {}"
    )
    moved = deleted.replace("«secret:4»", "«secret:1»")
    assert "X-Key: hunter2-admin" in put_back(moved, shown, known)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("Hello.", "«secret:9»", "«secret:9» is not a secret of this file"),
        ("Hello.", "«secret:0»", "«secret:0» is not a secret of this file"),
        ("Hello.", "«secret:1»", "«secret:1» appears twice"),
    ],
)
def test_a_hole_cannot_be_invented_or_copied(old: str, new: str, reason: str) -> None:
    shown = hidden()
    with pytest.raises(EditRefused, match=reason):
        put_back(shown.text.replace(old, new), shown, known)


def test_a_hole_cannot_be_moved_to_where_its_value_would_be_spoken() -> None:
    shown = hidden()
    text = shown.text.replace("{token: «secret:1»}", "{}").replace("Hello.", "«secret:1»")
    with pytest.raises(EditRefused, match="line 7: «secret:1» would be visible there"):
        put_back(text, shown, known)
    comment = shown.text.replace("{token: «secret:1»}   # why", "{}   # «secret:1»")
    with pytest.raises(EditRefused, match="line 2: «secret:1» would be visible there"):
        put_back(comment, shown, known)
