"""The event that started a CI job, read from its variables: a push, or a changed or closed request.

The project's files are not read, because the pull request's author controls them.
https://docs.github.com/en/webhooks/webhook-events-and-payloads,
https://docs.gitlab.com/ci/variables/predefined_variables/
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from vde_dagster.api.errors import UsageError

Action = Literal["check", "deploy", "close", "nothing"]


@dataclass(frozen=True, slots=True)
class Event:
    """The event that started a CI job, and the action to run: a check, a deployment or a close.

    Args:
        number: The number of the pull or merge request; 0 for a deployment.
        commit: The commit of the event; empty if the event does not contain it.
        description: The event in a few words, for messages.
        fork: The fork with the code; empty if the code is in the job's own repository.
        labels: Labels that may allow a fork's code; on GitHub, only a label that was just added.
    """

    action: Action
    number: int = 0
    commit: str = ""
    description: str = ""
    fork: str = ""
    labels: tuple[str, ...] = ()


def read_event(variables: Mapping[str, str], fork_label: str = "") -> Event:
    """Read the event of a GitHub or GitLab job from the process's environment variables.

    Args:
        fork_label: The reviewers' label that allows a fork's code to run.

    Raises:
        UsageError: The variables do not belong to a job of GitHub or GitLab, the event has no
            action, or the code comes from a fork without the label.
    """
    if variables.get("GITHUB_EVENT_NAME"):
        event = _read_github_event(variables)
    elif variables.get("GITLAB_CI"):
        event = _read_gitlab_event(variables)
    else:
        raise UsageError(
            "this is not a job of GitHub or GitLab: neither GITHUB_EVENT_NAME nor GITLAB_CI is set",
            hint="run an action directly: vde ci check --pr N, vde ci deploy, vde ci close --pr N",
        )
    if event.fork and (not fork_label or fork_label not in event.labels):
        raise UsageError(
            f"pull request {event.number} comes from a fork ({event.fork}): its models and macros "
            "are code, and would run with this job's rights",
            hint="review it, then let a job with --fork-label run it, see `vde help ci`"
            if not fork_label
            else f"review it, then give it the label '{fork_label}'",
        )
    return event


def _read_github_event(variables: Mapping[str, str]) -> Event:
    name = variables["GITHUB_EVENT_NAME"]
    if name not in ("pull_request", "pull_request_target", "push"):
        raise UsageError(
            f"vde has no action for the event '{name}'",
            hint="use the events pull_request and push, or run an action directly: "
            "vde ci check --pr N, vde ci deploy, vde ci close --pr N",
        )
    payload = _read_payload(variables.get("GITHUB_EVENT_PATH", ""))
    try:
        return _read_push(payload) if name == "push" else _read_pull_request(payload)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"the file of GITHUB_EVENT_PATH is not an event '{name}', because a value in it is "
            f"missing or invalid: {error}",
            hint="leave GITHUB_EVENT_NAME and GITHUB_EVENT_PATH as the job sets them",
        ) from None


def _read_payload(path: str) -> Any:
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError):
        raise UsageError(
            f"the file of GITHUB_EVENT_PATH cannot be read: '{path}'",
            hint="leave the variable as the job sets it",
        ) from None


def _read_push(payload: Any) -> Event:
    branch = f"refs/heads/{payload['repository']['default_branch']}"
    if payload["ref"] != branch or payload["deleted"]:
        return Event("nothing", description=f"a push to {payload['ref']} deploys nothing")
    return Event("deploy", commit=str(payload["after"]), description=f"a push to {payload['ref']}")


def _read_pull_request(payload: Any) -> Event:
    pull, action = payload["pull_request"], str(payload["action"])
    head = pull["head"]["repo"]
    # The repository of a fork may be deleted, and is null then.
    name = str(head["full_name"]) if head else "deleted"
    own = head is not None and head["id"] == payload["repository"]["id"]
    given = (str(payload["label"]["name"]),) if action == "labeled" else ()
    return Event(
        "close" if action == "closed" else "check",
        int(pull["number"]),
        str(pull["head"]["sha"]),
        f"pull request {pull['number']} was {action}",
        "" if own else name,
        # An earlier label does not cover commits that were pushed later.
        given,
    )


def _read_gitlab_event(variables: Mapping[str, str]) -> Event:
    number = variables.get("CI_MERGE_REQUEST_IID", "")
    if number:
        if not number.isdecimal():
            raise UsageError(
                f"CI_MERGE_REQUEST_IID is not a number: '{number}'",
                hint="leave the variable as the job sets it",
            )
        ends = variables.get("CI_ENVIRONMENT_ACTION") == "stop"
        source = variables.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", "")
        own = source == variables.get("CI_MERGE_REQUEST_PROJECT_ID")
        path = variables.get("CI_MERGE_REQUEST_SOURCE_PROJECT_PATH") or "unknown"
        labels = variables.get("CI_MERGE_REQUEST_LABELS", "")
        # A pipeline of merged results has a commit that exists only there.
        commit = variables.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or variables["CI_COMMIT_SHA"]
        return Event(
            "close" if ends else "check",
            int(number),
            commit,
            f"merge request {number} {'ended' if ends else 'changed'}",
            "" if own else path,
            tuple(labels.split(",")) if labels else (),
        )
    branch = variables.get("CI_COMMIT_BRANCH", "")
    if not branch or branch != variables.get("CI_DEFAULT_BRANCH"):
        return Event("nothing", description=f"a pipeline of '{branch}' deploys nothing")
    return Event("deploy", commit=variables["CI_COMMIT_SHA"], description=f"a push to {branch}")
