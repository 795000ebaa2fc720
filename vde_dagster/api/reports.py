"""Reports of plans, Markdown, and a project as one document."""

from vde_dagster.reports.documentation.gather import gather_document
from vde_dagster.reports.documentation.values import (
    Document,
    DocumentedModel,
    DocumentedTable,
    ShownModel,
)
from vde_dagster.reports.markdown import plain_table, plan_comment
from vde_dagster.reports.plan import plan_report, summary

__all__ = [
    "Document",
    "DocumentedModel",
    "DocumentedTable",
    "ShownModel",
    "gather_document",
    "plain_table",
    "plan_comment",
    "plan_report",
    "summary",
]
