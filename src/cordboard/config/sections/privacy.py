"""Section `privacy`: what is removed from records, and what is written encrypted."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, SecretStr, field_validator, model_validator

from cordboard.config.patterns import Name, checked_path
from cordboard.config.section import Section
from cordboard.privacy.master_key import CallKeys, decode_key
from cordboard.privacy.redaction import Redactor, compile_pattern
from cordboard.privacy.sealed_file import Vault

Kind: TypeAlias = Literal[
    "card", "iban", "email", "phone", "keys", "br_cpf", "ca_sin", "de_tax_id", "fr_nir",
    "in_aadhaar", "nl_bsn", "pl_pesel", "uk_nhs",
]  # fmt: skip
"""As in `cordboard.privacy.redaction.KINDS`; a test holds the two together."""


class Redact(Section):
    """Data that no record has: it becomes `[card]`, `[phone]`, … before anything is written."""

    kinds: tuple[Kind, ...] = Field(
        (),
        description="`card` and `iban` by their check digits; `email`; `phone`: 7 to 15 digits in "
        "a row; `keys`: every key that callers press is recorded as `*`; or ids of a country by "
        "their check digits. Spoken and spelled numbers count as written ones.",
    )
    patterns: dict[Name, str] = Field(
        default_factory=dict,
        max_length=50,
        description="Others by name, such as `customer: KD-######`: `#` is a digit, `@` a letter, "
        "`*` either. Spaces and hyphens may be missing.",
    )

    @field_validator("patterns")
    @classmethod
    def _can_be_found(cls, patterns: dict[str, str]) -> dict[str, str]:
        for name, pattern in patterns.items():
            try:
                compile_pattern(pattern)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return patterns

    @cached_property
    def redactor(self) -> Redactor:
        """The rules, ready for use."""
        return Redactor(self.kinds, self.patterns)


MasterKey = Annotated[SecretStr, Field(min_length=1)]


class Encryption(Section):
    """Ledgers and recordings are written encrypted, each call with a key of its own."""

    enabled: bool = Field(False, description="Whether calls from now on are written encrypted.")
    master_key: MasterKey | None = Field(
        None,
        description="32 random bytes as base64 or hex, which encrypt the keys of the calls, "
        'usually "${CORDBOARD_MASTER_KEY}" or "${file:/etc/cordboard/master.key}".',
    )
    old_master_keys: tuple[MasterKey, ...] = Field(
        (),
        max_length=10,
        description="Master keys that are replaced by `master_key`, until `cordboard privacy "
        "rewrap` has encrypted the keys of the calls anew.",
    )
    keys_directory: Path = Field(
        Path("var/keys"),
        description="Folder of the calls' keys. Leave it out of the backups of the calls: a call "
        "whose key is deleted can be read in no backup.",
    )

    @field_validator("master_key", "old_master_keys")
    @classmethod
    def _are_keys(
        cls, keys: SecretStr | tuple[SecretStr, ...] | None
    ) -> SecretStr | tuple[SecretStr, ...] | None:
        for key in keys if isinstance(keys, tuple) else (keys,):
            if key is not None:
                decode_key(key.get_secret_value())
        return keys

    @field_validator("keys_directory")
    @classmethod
    def _a_path(cls, keys: Path) -> Path:
        return checked_path(keys)

    @cached_property
    def vault(self) -> Vault:
        """Reads and writes the files of calls. Without a master key it deletes keys, so that calls
        of earlier can be erased."""
        master = None
        if self.master_key is not None:
            master = decode_key(self.master_key.get_secret_value())
        old = tuple(decode_key(key.get_secret_value()) for key in self.old_master_keys)
        return Vault(CallKeys(self.keys_directory, master, old), seals=self.enabled)

    @model_validator(mode="after")
    def _has_a_key(self) -> Encryption:
        if self.enabled and self.master_key is None:
            raise ValueError("enabled needs a master_key")
        return self


class Privacy(Section):
    """Personal data in what the engine writes."""

    redact: Redact = Field(Redact(), description="Data that no record has.")
    encryption: Encryption = Field(
        Encryption(), description="Encryption of ledgers and recordings."
    )
