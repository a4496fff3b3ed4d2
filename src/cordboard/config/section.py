"""The base of every section of `ai-agent.yaml`."""

from __future__ import annotations

from typing import Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError


class Section(BaseModel):
    """The base of every section: immutable, unknown keys refused.

    A section or list with a key but no content (all lines commented out, say) counts as
    empty.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_an_empty_section(cls, value: Any) -> Any:
        return {} if value is None else value

    @field_validator("*", mode="before")
    @classmethod
    def _plain_values(cls, value: Any, info: ValidationInfo) -> Any:
        annotation = cls.model_fields[info.field_name or ""].annotation
        if value is None and get_origin(annotation) in (tuple, dict):
            return () if get_origin(annotation) is tuple else {}
        if isinstance(value, bool) and int in (annotation, *get_args(annotation)):
            raise PydanticCustomError("truth_value", "true and false are not numbers")
        return value
