"""Reports of plans, helpers for Markdown, and the document that describes a whole project."""

from vde_dagster.overviews.documentation.gather import gather_document
from vde_dagster.overviews.documentation.values import Document
from vde_dagster.reports.markdown import literal, plain_table, plan_comment, without_mentions
from vde_dagster.reports.plan import summary

__all__ = [
    "Document",
    "gather_document",
    "literal",
    "plain_table",
    "plan_comment",
    "summary",
    "without_mentions",
]
