"""Hooks of dbt, rendered by an additional compile because a manifest has only their raw text.

A call of a macro is appended to a model's code. The macro renders the model's hooks in the model's
context, as `dbt run` does, and writes them into a comment of the compiled code. Run hooks
(`on-run-start`, `on-run-end`) are rendered as analyses. Hooks that query the warehouse, or whose
text differs in each run, are not rendered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vde_dagster.plugins.dbt.manifest import Manifest

KEYS = ("pre-hook", "post-hook")
MACRO = r"""{% macro vde_hooks(asked) %}
  {%- if execute -%}
    {%- set found = {} -%}
    {%- for key, index in asked.get(model.unique_id, []) -%}
      {%- set hooks = pre_hooks if key == 'pre-hook' else post_hooks -%}
      {%- do found.update({key ~ ' ' ~ index: render(hooks[index].get('sql'))}) -%}
    {%- endfor -%}
    {{ vde_hooks_told(found) }}
  {%- endif -%}
{% endmacro %}
{% macro vde_hooks_told(found) -%}
  /*vde_hooks {{ tojson(found) | replace('*', '\\u002a') }}*/
{%- endmacro %}
"""
_RUN_HOOK = "{% set text %}{text}{% endset %}{{ vde_hooks_told({'': text | string}) }}\n"
_RENDERED = re.compile(r"/\*vde_hooks (.*?)\*/", re.DOTALL)
_END_OF_SNAPSHOT = re.compile(r"\{%-?\s*endsnapshot\b")
_JINJA = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_THIS = re.compile(r"\{\{-?\s*this\s*-?\}\}")
_WORD = re.compile(r"[A-Za-z_]\w*")
_RUN_VALUES = re.compile(
    r"\b(?:run_query|statement|load_result|store_result|load_relation|is_incremental|flags"
    r"|should_full_refresh|invocation_id|run_started_at|modules\.datetime|thread_id"
    r"|selected_resources|results|schemas|database_schemas)\b"
    r"|\badapter\.(?!quote\b|dispatch\b|type\b)"
)
"""Names for values that exist only during `dbt run`, such as `run_query` and `invocation_id`."""


def hook_text(hook: Any) -> str:
    """Return the raw text of a hook without the final semicolon."""
    text = hook.get("sql") if isinstance(hook, Mapping) else hook
    return str(text or "").strip().rstrip(";").strip()


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks of a manifest that dbt can render while it compiles.

    Args:
        models: (key, index) of each hook, such as `("pre-hook", 0)`, by the node's unique id.
        runs: Unique ids of run hooks: `on-run-start` and `on-run-end`.
    """

    manifest: Manifest
    models: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)
    runs: Sequence[str] = ()

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> Hooks:
        """Find hooks whose Jinja has the same result in each run."""
        models, runs, macros = {}, [], _macros_by_name(manifest)
        for unique_id, node in manifest.nodes.items():
            if node.resource_type == "operation":
                # Unqualified names of a package are known only within the package.
                own = node.package_name == manifest.metadata.project_name
                if own and _can_render(node.raw_code, macros):
                    runs.append(unique_id)
            elif node.resource_type in ("model", "snapshot") and node.language == "sql":
                known = [
                    (key, index)
                    for key in KEYS
                    for index, hook in enumerate(node.config.get(key) or ())
                    if _can_render(hook_text(hook), macros)
                ]
                has_code = node.original_file_path.endswith(".sql")
                if known and has_code and node.materialized != "ephemeral":
                    models[unique_id] = known
        return cls(manifest, models, runs)

    def __bool__(self) -> bool:
        return bool(self.models or self.runs)

    def without_file(self, path: str) -> Hooks:
        """Return these hooks without the hooks of a file that dbt cannot compile."""
        # If no hook is from the file, the run hooks are left out. Without run hooks, all hooks are
        # left out.
        nodes = self.manifest.nodes
        models = {
            one: keys
            for one, keys in self.models.items()
            if not path.endswith(nodes[one].original_file_path)
        }
        if len(models) < len(self.models):
            return replace(self, models=models)
        return replace(self, models=self.models if self.runs else {}, runs=())

    @property
    def selected(self) -> list[str]:
        """Arguments of `--select` for the nodes and analyses that render the hooks."""
        names = {self.manifest.nodes[one].name for one in self.models}
        return [f"fqn:{name}" for name in sorted({*names, *self.analyses})]

    @property
    def analyses(self) -> dict[str, str]:
        """The text of each dbt analysis that renders a run hook, by the analysis's name."""
        nodes = self.manifest.nodes
        texts = (_RUN_HOOK.replace("{text}", nodes[one].raw_code) for one in self.runs)
        return {f"vde_hook_{number}": text for number, text in enumerate(texts)}

    @property
    def files(self) -> dict[tuple[str, str], list[str]]:
        """Unique ids of nodes with hooks, by (package, file)."""
        found: dict[tuple[str, str], list[str]] = {}
        for unique_id in self.models:
            node = self.manifest.nodes[unique_id]
            found.setdefault((node.package_name, node.original_file_path), []).append(unique_id)
        return found

    def with_calls(self, text: str, unique_ids: Sequence[str]) -> str:
        """Return a file's text with a call of the macro that renders the hooks of these nodes."""
        calls = json.dumps({one: self.models[one] for one in unique_ids})
        call = f"\n{{{{ vde_hooks({calls}) }}}}\n"
        if not _END_OF_SNAPSHOT.search(text):
            return text + call
        return _END_OF_SNAPSHOT.sub(lambda end: call + end[0], text)

    def extract_rendered(self, compiled: Manifest) -> dict[str, dict[str, str]]:
        """Extract the rendered hooks of each node from compiled code.

        A hook's key is its property and index, such as `pre-hook 0`; a run hook's key is empty.
        """
        found = {}
        analyses = dict(zip(self.analyses, self.runs, strict=True))
        for node in compiled.nodes.values():
            output = _RENDERED.search(node.compiled_code or "")
            if output is not None:
                found[analyses.get(node.name, node.unique_id)] = json.loads(output[1])
        return found


def _macros_by_name(manifest: Manifest) -> dict[str, list[str]]:
    """Return the Jinja of macros by name; `default__f` is listed under `f`, too."""
    # `default__f` can also be called as `f`.
    found: dict[str, list[str]] = {}
    for unique_id, macro in manifest.macros.items():
        name = unique_id.rpartition(".")[2]
        jinja = " ".join(_JINJA.findall(macro.macro_sql))
        for called in {name, name.rpartition("__")[2]}:
            found.setdefault(called, []).append(jinja)
    return found


def _can_render(text: str, macros: Mapping[str, Sequence[str]]) -> bool:
    """Return whether a hook contains Jinja that dbt can render while it compiles."""
    jinja = " ".join(_JINJA.findall(_THIS.sub("", text)))
    waiting, seen = [jinja], set[str]()
    while waiting:
        one = waiting.pop()
        if _RUN_VALUES.search(one):
            return False
        called = {word for word in _WORD.findall(one) if word in macros} - seen
        seen |= called
        waiting += [code for word in called for code in macros[word]]
    return bool(jinja)


def run_hooks(
    manifest: Manifest, rendered: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, str | None]]:
    """Yield (key, text) of each run hook, in order. Text that still contains Jinja becomes None."""
    hooks = [n for n in manifest.nodes.values() if n.resource_type == "operation"]
    for node in sorted(hooks, key=lambda n: n.index or 0):
        key = "on-run-start" if "on-run-start" in node.tags else "on-run-end"
        text: str | None = rendered.get(node.unique_id, {}).get("", node.raw_code)
        yield key, None if text is None or _JINJA.search(text) else text
