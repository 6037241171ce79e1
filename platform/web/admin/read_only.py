"""Read-only admin of tables that the platform writes, of any size.

A list must load within half a second over ten million rows, without an index for each column that a
user may filter by. So three things are bounded: rows are counted up to ten thousand, pages begin
with the newest row, and filters without an index search the newest rows only, which the page
states. Filtering by run searches all rows, as they have an index by run; further filters that no
index serves search the run's newest rows.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
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
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.contrib.filters.admin import AutocompleteSelectFilter, RangeDateFilter
from unfold.contrib.filters.forms import SearchForm
from unfold.utils import parse_date_str

from web.rules.texts import visible

COUNTED_AT_MOST: Final = 10_000
"""Maximum number of counted rows; longer lists show their first pages."""
ROWS_EXAMINED: Final = 200_000
"""Newest rows that filters without an index search."""
# Query parameters of a list other than filters.
_NO_FILTERS: Final = frozenset({"p", "o", "e", "all", "q", "_changelist_filters"})
Filter = str | tuple[str, type[admin.FieldListFilter]]


def chosen_by_name(field: str) -> Filter:
    """Return a filter by a related row, with completion by name and no query of the rows."""
    return field, AutocompleteSelectFilter


def is_empty(field: str) -> Filter:
    """Return a filter by whether a field has a value."""
    return field, admin.EmptyFieldListFilter


def equal_to(field: str) -> Filter:
    """Return a filter by the exact value of a field, typed by the user; an index may serve it."""
    return field, EqualTextFilter


class EqualTextFilter(admin.FieldListFilter):
    """A text box that matches the whole value of a field; empty, it matches all rows."""

    template = "unfold/filters/filters_field.html"

    def expected_parameters(self) -> list[str | None]:
        """Return the query parameter, which is the field's name."""
        return [self.field_path]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows with the typed value."""
        typed = self._typed()
        return queryset.filter(**{self.field_path: typed}) if typed else queryset

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Yield the form with the text box."""
        data = {self.field_path: self._typed()}
        yield {"form": SearchForm(name=self.field_path, label=f"By {self.title}", data=data)}

    def _typed(self) -> str:
        values: Any = self.used_parameters.get(self.field_path) or [""]
        return str(values[-1]).strip()


def between_days(field: str) -> Filter:
    """Return a filter by the first and the last day of a time, in the server's time zone."""
    return field, DayFilter


class DayFilter(RangeDateFilter):
    """Two days; an empty or malformed one limits nothing."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows between the days, both included."""
        for end, lookup in (("from", "date__gte"), ("to", "date__lte")):
            day = parse_date_str(str(self.used_parameters.get(f"{self.field_path}_{end}", "")))
            if day:
                queryset = queryset.filter(**{f"{self.field_path}__{lookup}": day})
        return queryset


RUN_FILTER: Final = chosen_by_name("run")
"""Filter by run."""


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Paginator of a table that may be too large to count."""

    template_name = "runs/bounded_pages.html"

    @cached_property
    def count(self) -> int:
        """Return the number of rows, at most one more than :data:`COUNTED_AT_MOST`."""
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment]
        return rows.order_by().values("pk")[: COUNTED_AT_MOST + 1].count()

    @cached_property
    def counted(self) -> str:
        """Return the number of rows in words.

        For an unfiltered table above the limit this is the database's estimate.
        """
        if self.count <= COUNTED_AT_MOST:
            return f"{self.count:,}"
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment]
        estimate = 0  # the database's is -1 before the first ANALYZE
        if not rows.query.where:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass",
                    [connection.ops.quote_name(rows.model._meta.db_table)],
                )
                estimate = int(cursor.fetchone()[0])
        if estimate <= COUNTED_AT_MOST:
            return f"more than {COUNTED_AT_MOST:,}"
        return f"about {int(float(f'{estimate:.2g}')):,}"


def newest_of(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Return the newest of some rows, as many as filters without an index search."""
    ids = rows.order_by("-pk").values_list("pk", flat=True)
    older = list(ids[ROWS_EXAMINED : ROWS_EXAMINED + 1])
    return rows.filter(pk__gt=older[0]) if older else rows


def link_to(row: Model | None) -> SafeString | str:
    """Return a link to the admin page of `row`."""
    return "-" if row is None else link_to_row(type(row), row.pk, str(row))


def link_to_row(model: type[Model], pk: Any, words: str) -> SafeString:
    """Return a link to the admin page of a row without reading the row."""
    options = model._meta
    address = reverse(f"admin:{options.app_label}_{options.model_name}_change", args=[pk])
    return format_html('<a class="text-link" href="{}">{}</a>', address, visible(words))


def links_to_lists(*models: type[Model], **lookup: Any) -> SafeString:
    """Return links to the lists of related rows, filtered by `lookup`."""
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
    return format_html_join(" · ", "{}", ((link,) for link in links))


def as_written(text: str) -> SafeString:
    """Return untrusted text with its line breaks and visible control characters."""
    style = "white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px"
    return format_html('<pre style="{}">{}</pre>', style, visible(text))


def rounded(name: str) -> Callable[[Any], str]:
    """Return a list column that shows a number with four significant digits."""

    @admin.display(description=name.replace("_", " "), ordering=name)
    def shown(row: Any) -> str:
        value = getattr(row, name)
        return "-" if value is None else f"{value:,.4g}"

    return shown


def linked(name: str, lookup: str) -> Callable[[Any, Any], SafeString | str]:
    """Return a method of an admin for a list column that links to a related row.

    Args:
        name: Title of the column.
        lookup: Path from a row to the related row, like ``worker__fleet``.
    """

    @admin.display(description=name, ordering=lookup)
    def link(_admin: Any, row: Any) -> SafeString | str:
        return link_to(_followed(row, lookup))

    return link


def _followed(row: Any, lookup: str) -> Any:
    return reduce(getattr, lookup.split("__"), row)


class ReadOnlyAdmin(ModelAdmin):
    """Admin that lists, filters and searches, but never adds, changes or deletes."""

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # facets count every row of every choice
    list_per_page = 50
    list_filter_submit = True
    list_disable_select_all = True
    """Actions apply to one page: rows that were not displayed are not affected."""
    actions_list: ClassVar[list[str]] = []
    search_fields: tuple[str, ...] = ("run__name",)
    search_help_text = "The name of a run, or its beginning"
    run_lookup = "run"
    """Lookup from a row to its run; empty if there is none, or the row is a run."""
    dashboard = ""
    """Dashboard path of a `{row}` of a `{run}`; empty without one."""
    run_link = linked("run", "run")
    may_grow = False
    """Whether the table may become too large to scan; it has numeric keys."""
    indexed_filters: tuple[str, ...] = ("run__",)
    """Beginnings of the query parameters whose rows an index finds."""
    scanned_filters: tuple[str, ...] = ()
    """Beginnings of the query parameters that no index serves, not even within a run."""

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
        """Return whether the user may run actions, which needs the change permission.

        Actions are the only use of that permission here.
        """
        right = get_permission_codename("change", self.opts)
        return bool(request.user.has_perm(f"{self.opts.app_label}.{right}"))

    def view_on_site(self, row: Any) -> str | None:
        """Return the dashboard path of a row, or None."""
        if "{run}" not in self.dashboard:
            return self.dashboard or None
        run = _followed(row, self.run_lookup) if self.run_lookup else row
        if run is None or run.archived_at is not None:
            return None
        return self.dashboard.format(run=quote(run.name, safe=""), row=row)

    def get_list_display_links(
        self, request: HttpRequest, list_display: Sequence[Any]
    ) -> Sequence[Any]:
        """Return the first column that is not a link, as the link to the row."""
        return [name for name in list_display if not str(name).endswith("_link")][:1]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return the row with an id, or the rows of runs whose name begins with the search term.

        Runs are few and have an index by name. Large tables show the rows of the newest matching
        run only, because an index returns one run's rows in order.
        """
        words = search_term.strip()
        if not words:
            return queryset, False
        if self.search_fields != ReadOnlyAdmin.search_fields:
            found: tuple[QuerySet[Any], bool] = super().get_search_results(request, queryset, words)
            return found
        if self.may_grow and words.isdigit() and len(words) < 19:
            return queryset.filter(pk=int(words)), False
        run_model: Any = self.model
        for name in self.run_lookup.split("__"):
            run_model = run_model._meta.get_field(name).related_model
        runs = run_model._default_manager.filter(name__istartswith=words).order_by("-id")
        ids = list(runs.values_list("pk", flat=True)[: 1 if self.may_grow else 100])
        return self.rows_of_runs(queryset, ids), False

    def rows_of_runs(self, queryset: QuerySet[Any], runs: list[int]) -> QuerySet[Any]:
        """Return the rows of runs, with a query that uses an index."""
        return queryset.filter(**{f"{self.run_lookup}__in": runs})

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return all rows without their hidden columns, or the newest if a filter has no index."""
        rows: QuerySet[Any] = super().get_queryset(request).defer(*(self.exclude or ()))
        if not self.may_grow or not self._is_filtered(request):
            return rows
        newest = self.model._default_manager.aggregate(newest=Max("pk"))["newest"] or 0
        return rows.filter(pk__gt=newest - ROWS_EXAMINED)

    def scans(self, request: HttpRequest) -> bool:
        """Return whether a filter has no index, not even within a run."""
        return any(
            name.startswith(self.scanned_filters) and request.GET[name] for name in request.GET
        )

    def _is_filtered(self, request: HttpRequest) -> bool:
        filters = {name for name in request.GET if name not in _NO_FILTERS and request.GET[name]}
        if any(name.startswith(self.indexed_filters) for name in filters):
            return False
        words = request.GET.get("q", "").strip()
        # A search for the name of a run, or for an id, has an index.
        has_index = self.search_fields == ReadOnlyAdmin.search_fields and (
            "__" not in self.run_lookup or words.isdigit()
        )
        return bool(filters) or (bool(words) and not has_index)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        """Return the list, with a message if only the newest rows are searched."""
        if self.may_grow and request.method == "GET":
            newest = f"the newest {ROWS_EXAMINED:,} rows"
            if self._is_filtered(request):
                text = f"Filters search {newest}. Select a run to search all its rows."
                messages.info(request, text)
            elif self.scans(request):
                messages.info(request, f"These filters search {newest} of the run.")
        answer: TemplateResponse = super().changelist_view(request, extra_context)
        return answer

    def audit(self, request: HttpRequest, row: Model, words: str) -> None:
        """Record an action on a row in the admin's log."""
        self.log_change(request, row, words)


def register_read_only(
    model: type[Model],
    *,
    columns: str,
    rounded_columns: str = "",
    filters: Sequence[Filter] = (RUN_FILTER,),
    search_fields: tuple[str, ...] | None = None,
    search_help: str = ReadOnlyAdmin.search_help_text,
    ordering: tuple[str, ...] = ("-id",),
    joins: tuple[str, ...] = (),
    hidden: tuple[str, ...] = (),
    run_lookup: str = "run",
    dashboard: str = "",
    may_grow: bool = False,
) -> None:
    """Register a model whose admin needs no code of its own.

    Args:
        model: The model.
        columns: Names of the list's columns, separated by spaces; `run_link` links to the run.
        rounded_columns: The columns of these that show four significant digits.
        filters: Filters of the list.
        search_fields: Searched fields; by default the name of the run, if there is one.
        search_help: Explanation of the search.
        ordering: Order of the list; an index has it.
        joins: Related rows that the list shows in addition to the run.
        hidden: Columns that are neither read nor shown.
        run_lookup: See :attr:`ReadOnlyAdmin.run_lookup`.
        dashboard: See :attr:`ReadOnlyAdmin.dashboard`.
        may_grow: See :attr:`ReadOnlyAdmin.may_grow`.
    """
    names, short = columns.split(), rounded_columns.split()
    if search_fields is None:
        search_fields = ReadOnlyAdmin.search_fields if run_lookup else ()
    options = {
        "list_display": tuple(rounded(name) if name in short else name for name in names),
        "list_filter": filters,
        "list_select_related": ((run_lookup,) if "run_link" in names else ()) + joins,
        "search_fields": search_fields,
        "search_help_text": search_help,
        "ordering": ordering,
        "exclude": hidden,
        "run_lookup": run_lookup,
        "run_link": linked("run", run_lookup),
        "dashboard": dashboard,
        "may_grow": may_grow,
        "__module__": model.__module__,
    }
    admin.site.register(model, type(f"{model.__name__}Admin", (ReadOnlyAdmin,), options))
