"""Confirmation page of admin actions, with affected rows and a reason.

An action of a list is one click away from any row. So every action first shows a page with its
effect and asks for a reason; only the submission of that page acts. Users with the view permission
only are not offered actions.
"""

from dataclasses import dataclass
from typing import Any, Final

from django.contrib.admin import ModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse

from web.rules.texts import visible

REASON_LENGTH: Final = 500
"""Maximum characters of a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Texts of the confirmation page of an action.

    Attributes:
        title: The question.
        effect: Effect of the action, in one or two sentences.
        verb: Label of the button.
        destroys: Whether the action is irreversible and requires a reason; otherwise the reason is
            optional.
    """

    title: str
    effect: str
    verb: str
    destroys: bool = False


def reason_or_page(
    model_admin: "ModelAdmin[Any]", request: HttpRequest, chosen: QuerySet[Any], decision: Decision
) -> str | TemplateResponse:
    """Return the submitted reason, possibly empty, or the confirmation page."""
    reason = request.POST.get("reason", "").strip()[:REASON_LENGTH]
    is_decided = "decided" in request.POST
    if is_decided and (reason or not decision.destroys):
        return reason
    rows = []
    for row in chosen:
        options = row._meta
        address = reverse(f"admin:{options.app_label}_{options.model_name}_change", args=[row.pk])
        run = getattr(row, "run", None)
        words = f"{row} · {run}" if run else str(row)
        rows.append({"pk": row.pk, "words": visible(words), "address": address})
    context = model_admin.admin_site.each_context(request) | {
        "title": decision.title,
        "opts": model_admin.model._meta,
        "decision": decision,
        "rows": rows,
        "action": request.POST["action"],
        "checkbox": ACTION_CHECKBOX_NAME,
        "reason_length": REASON_LENGTH,
        "lacks_reason": is_decided,
        "back": request.get_full_path(),
    }
    return TemplateResponse(request, "runs/decision.html", context)
