"""Ask before a person decides about rows: what it does, which rows it is about, and why.

An action of a list is a click away from any row. So every action first shows a page that says
what will happen and takes a reason; only the answer to that page acts. Who may look at a table
but not change it is not offered its actions.
"""

from dataclasses import dataclass
from typing import Any, Final

from django.contrib.admin import ModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse

from runs.core.visible_text import visible

REASON_LENGTH: Final = 500
"""Characters of a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An act on chosen rows, in the words of the page that asks for it.

    Attributes:
        title: What is asked.
        effect: What happens then, and what stays; a sentence or two.
        verb: What the button says.
        destroys: Whether something is lost for good: such an act takes a reason, and any other
            may be given one.
    """

    title: str
    effect: str
    verb: str
    destroys: bool = False


def reason_or_page(
    model_admin: "ModelAdmin[Any]", request: HttpRequest, chosen: QuerySet[Any], decision: Decision
) -> str | TemplateResponse:
    """Return the reason that a person gave, perhaps empty, or the page that asks for it."""
    reason = request.POST.get("reason", "").strip()[:REASON_LENGTH]
    is_decided = "decided" in request.POST
    if is_decided and (reason or not decision.destroys):
        return reason
    options = model_admin.model._meta
    context = model_admin.admin_site.each_context(request) | {
        "title": decision.title,
        "opts": options,
        "decision": decision,
        "rows": [_shown(row) for row in chosen],
        "action": request.POST["action"],
        "checkbox": ACTION_CHECKBOX_NAME,
        "reason_length": REASON_LENGTH,
        "lacks_reason": is_decided,
        "back": request.get_full_path(),
    }
    return TemplateResponse(request, "runs/decision.html", context)


def _shown(row: Model) -> dict[str, Any]:
    options = row._meta
    address = reverse(f"admin:{options.app_label}_{options.model_name}_change", args=[row.pk])
    run = getattr(row, "run", None)
    words = f"{row} · {run}" if run else str(row)
    return {"pk": row.pk, "words": visible(words), "address": address}
