"""Read the API tokens."""

from typing import Any

from runs.access.models.tokens import ApiToken
from runs.access.queries.callers import caller_of_token, role_of
from runs.access.schemas import TokenRow


def token_fields(token: ApiToken) -> dict[str, Any]:
    """Return the public fields of a token."""
    shown = set(TokenRow.__struct_fields__) - {"suspended"}
    given: dict[str, Any] = {field: getattr(token, field) for field in shown}
    given["run"] = token.run.name if token.run else None
    given["created_by"] = token.created_by.get_username() if token.created_by else None
    given["suspended"] = sorted(caller_of_token(token).suspended)
    return given


def tokens() -> list[TokenRow]:
    """Return all tokens, newest first."""
    found = list(ApiToken.objects.select_related("run", "created_by").order_by("-id"))
    roles = {owner: role_of(owner) for owner in {token.created_by for token in found} if owner}
    for token in found:
        token.owner_role = roles[token.created_by] if token.created_by else None
    return [TokenRow(**token_fields(token)) for token in found]
