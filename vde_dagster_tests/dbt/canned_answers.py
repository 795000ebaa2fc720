"""Stands for `plugins/dbt/answers`: the same answers each time, without a warehouse."""

from __future__ import annotations

import json
import sys

ROWS = [
    ["open", {"decimal": "2.50"}, {"date": "2024-01-02"}, None],
    ["paid", {"decimal": "10.00"}, {"date": "2024-01-03"}, 7],
]

if __name__ == "__main__":
    sources = json.loads(sys.stdin.readline())
    print(json.dumps({"state": ""}), flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        answer: dict[str, object] = {"refused": "it is not there"}
        if question["ask"] == "exists":
            answer = {"exists": question["relation"] == ["main", "merged"]}
        elif question["ask"] == "columns":
            answer = {"columns": [["kind", "string"], ["total", "decimal(10,2)"]]}
        elif "merged" in question["sql"]:
            answer = {"columns": [[name, "string"] for name in "abcd"], "rows": ROWS}
        print(json.dumps(answer), flush=True)
