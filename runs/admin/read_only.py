"""Lists and pages of rows that the platform writes: to look at, whatever the size of the table.

A list must answer within half a second over ten million rows, without an index for each column
that a person may ask for. So three things are bounded: rows are counted up to ten thousand, pages
begin with the newest row, and what no index answers is looked for among the newest rows only; the
page says so. Naming a run goes further back, as its rows have an index of their own.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final
from urllib.parse import quote

from django.contrib import admin, messages
from django.contrib.auth import get_permission_codename
from django.core.paginator import Paginator
from django.db import connection
from django.db.models import Max, Model, QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from runs.core.visible_text import visible
from runs.models import Run

COUNTED_AT_MOST: Final = 10_000
"""Rows of a list that are counted; of a longer one the first pages are shown."""
LOOKED_AT: Final = 200_000
"""Newest rows among which is looked for what no index answers."""
# What a list takes besides filters.
_NO_FILTERS: Final = frozenset({"p", "o", "e", "all", "q", "_changelist_filters"})
RUN_FILTER: Final = ("run", AutocompleteSelectFilter)
"""A run, by the beginning of its name; nothing is asked of the rows to offer it."""


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Pages of a table that may be too large to be counted."""

    template_name = "runs/bounded_pages.html"

    @cached_property
    def count(self) -> int:
        """Return how many rows there are; one more than are counted if there are more."""
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment]
        return rows.order_by().values("pk")[: COUNTED_AT_MOST + 1].count()

    @cached_property
    def counted(self) -> str:
        """Return how many rows there are in words that are true of any number.

        Of a whole table that is too long to be counted the database's own estimate is told.
        """
        if self.count <= COUNTED_AT_MOST:
            return f"{self.count:,}"
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment]
        estimate = 0 if rows.query.where else _estimated_rows(rows.model)
        if estimate <= COUNTED_AT_MOST:
            return f"more than {COUNTED_AT_MOST:,}"
        return f"about {int(float(f'{estimate:.2g}')):,}"


def _estimated_rows(model: type[Model]) -> int:
    """Return how many rows the database thinks a table has; -1 before it has ever looked."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass",
            [connection.ops.quote_name(model._meta.db_table)],
        )
        return int(cursor.fetchone()[0])


def link_to(row: Model | None) -> SafeString | str:
    """Return a link to the admin page of `row`."""
    return "-" if row is None else link_to_row(type(row), row.pk, str(row))


def link_to_row(model: type[Model], pk: Any, words: str) -> SafeString:
    """Return a link to the admin page of a row that need not be read for it."""
    options = model._meta
    address = reverse(f"admin:{options.app_label}_{options.model_name}_change", args=[pk])
    return format_html('<a class="text-link" href="{}">{}</a>', address, visible(words))


def links_to_lists(*models: type[Model], **lookup: Any) -> SafeString:
    """Return links to the lists of rows that belong to one row, as `lookup` finds them."""
    query = "&".join(f"{name}={value}" for name, value in lookup.items())
    links = [
        format_html(
            '<a class="text-link" href="{}?{}">{}</a>',
            reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"),
            query,
            model._meta.verbose_name_plural,
        )
        for model in models
    ]
    return SafeString(SafeString(" · ").join(links))


def as_written(text: str) -> SafeString:
    """Return text of strangers in its lines, with what could deceive a reader made visible."""
    style = "white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px"
    return format_html('<pre style="{}">{}</pre>', style, visible(text))


def rounded(name: str) -> Callable[[Any], str]:
    """Return a column of a list that shows a number to four digits."""

    @admin.display(description=name.replace("_", " "), ordering=name)
    def shown(row: Any) -> str:
        value = getattr(row, name)
        return "-" if value is None else f"{value:,.4g}"

    return shown


class ReadOnlyAdmin(ModelAdmin):
    """Look, filter and search; never add, change or delete."""

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # they count every row of every choice
    list_per_page = 50
    list_filter_submit = True
    list_disable_select_all = True
    """Actions take what one page shows: nobody decides about rows that they have not seen."""
    actions_list: ClassVar[list[str]] = []
    search_fields: tuple[str, ...] = ("run__name",)
    search_help_text = "The name of a run, or how it begins"
    run_lookup = "run"
    """From a row to its run; empty if a row has none, or is one."""
    dashboard = ""
    """Where the dashboard shows a `{row}` of a `{run}`; empty if nowhere."""
    may_grow = False
    """Whether the table gets too large to look through, and has numbers for keys."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False."""
        return False

    def has_act_permission(self, request: HttpRequest) -> bool:
        """Return whether somebody may decide about rows: who may only look is offered no action.

        Actions are the one thing that the right to change a table gives here.
        """
        right = get_permission_codename("change", self.opts)
        return bool(request.user.has_perm(f"{self.opts.app_label}.{right}"))

    def view_on_site(self, row: Any) -> str | None:
        """Return where the dashboard shows a row; None if it does not."""
        if "{run}" not in self.dashboard:
            return self.dashboard or None
        run = row
        for name in self.run_lookup.split("__") if self.run_lookup else ():
            run = getattr(run, name)
        if run is None or run.archived_at is not None:
            return None
        return self.dashboard.format(run=quote(run.name, safe=""), row=row)

    def get_list_display_links(
        self, request: HttpRequest, list_display: Sequence[Any]
    ) -> Sequence[Any]:
        """Return the first column that is no link itself: it leads to the row."""
        return [name for name in list_display if not str(name).endswith("_link")][:1]

    @admin.display(description="run", ordering="run")
    def run_link(self, row: Any) -> SafeString | str:
        """Return a link to the row's run."""
        return link_to(row.run)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return the row of a number, or the rows of runs whose name begins with the words.

        Runs are few and have an index by name; where rows may be many, those of the newest run
        are shown, as an index gives one run's rows in order.
        """
        words = search_term.strip()
        if not words:
            return queryset, False
        if self.search_fields != ReadOnlyAdmin.search_fields:
            found: tuple[QuerySet[Any], bool] = super().get_search_results(request, queryset, words)
            return found
        if self.may_grow and words.isdigit() and len(words) < 19:
            return queryset.filter(pk=int(words)), False
        runs = Run.objects.filter(name__istartswith=words).order_by("-id")
        ids = list(runs.values_list("pk", flat=True)[: 1 if self.may_grow else 100])
        return self.rows_of_runs(queryset, ids), False

    def rows_of_runs(self, queryset: QuerySet[Any], runs: list[int]) -> QuerySet[Any]:
        """Return the rows of runs in a way that an index answers."""
        return queryset.filter(**{f"{self.run_lookup}__in": runs})

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows; the newest ones if they are filtered by what has no index."""
        rows: QuerySet[Any] = super().get_queryset(request)
        if not self.may_grow or not self._looks_through(request):
            return rows
        newest = self.model._default_manager.aggregate(newest=Max("pk"))["newest"] or 0
        return rows.filter(pk__gt=newest - LOOKED_AT)

    def _looks_through(self, request: HttpRequest) -> bool:
        asked = {name for name in request.GET if name not in _NO_FILTERS and request.GET[name]}
        if any(name.startswith("run__") for name in asked):
            return False
        return bool(asked) or self._searches_through(request.GET.get("q", "").strip())

    def _searches_through(self, words: str) -> bool:
        """Return whether no index answers a search for `words`."""
        if self.search_fields != ReadOnlyAdmin.search_fields:
            return bool(words)
        return "__" in self.run_lookup and bool(words) and not words.isdigit()

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        """Return a list, which says where it looked if that is not everywhere."""
        if self.may_grow and request.method == "GET" and self._looks_through(request):
            messages.info(
                request,
                f"Filters look at the newest {LOOKED_AT:,} rows. Name a run to look further back.",
            )
        answer: TemplateResponse = super().changelist_view(request, extra_context)
        return answer

    def audit(self, request: HttpRequest, row: Model, words: str) -> None:
        """Write down in the admin's own log what somebody did with a row."""
        self.log_change(request, row, words)
