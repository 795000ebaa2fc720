"""What a CI system's job is for, by its own variables: a check, a deployment, or a close.

Nothing of the project is read for it: its files are code of whoever wrote the pull request.
https://docs.github.com/en/webhooks/webhook-events-and-payloads,
https://docs.gitlab.com/ci/variables/predefined_variables/
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from vde_dagster.errors import UsageError

Action = Literal["check", "deploy", "close", "nothing"]


@dataclass(frozen=True, slots=True)
class Event:
    """What happened in a repository, and what is to be done of it.

    Args:
        number: The pull or merge request's; 0 for a deployment.
        commit: The one that it is about; empty where only the forge knows it.
        why: What happened, for people.
        fork: Whose code it is, where that is another repository than the job's.
        labels: Of the pull request; those that the event itself gives it, where code may follow.
    """

    action: Action
    number: int = 0
    commit: str = ""
    why: str = ""
    fork: str = ""
    labels: tuple[str, ...] = ()


def event_of_job(variables: Mapping[str, str], fork_label: str = "") -> Event:
    """Return what a job is for.

    Args:
        variables: The process's environment.
        fork_label: The label by which somebody who has read a fork's code lets it run.

    Raises:
        UsageError: They are no job's of GitHub or GitLab, or of an event that says nothing of
            what to do; or the code is a fork's, and nobody said that it may run.
    """
    if variables.get("GITHUB_EVENT_NAME"):
        event = _of_github(variables)
    elif variables.get("GITLAB_CI"):
        event = _of_gitlab(variables)
    else:
        raise UsageError(
            "this is no job of GitHub or GitLab: neither GITHUB_EVENT_NAME nor GITLAB_CI is set",
            hint="say what to do: vde ci check --pr N, vde ci deploy or vde ci close --pr N",
        )
    if event.fork and (not fork_label or fork_label not in event.labels):
        raise UsageError(
            f"pull request {event.number} comes from a fork ({event.fork}): its models and macros "
            "are code, and would run with what this job may do",
            hint="read it, then let a job with --fork-label run it, see docs/ci.md"
            if not fork_label
            else f"read it, then give it the label '{fork_label}'",
        )
    return event


def _of_github(variables: Mapping[str, str]) -> Event:
    name = variables["GITHUB_EVENT_NAME"]
    if name not in ("pull_request", "pull_request_target", "push"):
        raise UsageError(
            f"an event '{name}' says nothing of what to do",
            hint="run it on pull_request and push, or say it: vde ci check, deploy or close",
        )
    payload = _payload(variables.get("GITHUB_EVENT_PATH", ""))
    try:
        return _push(payload) if name == "push" else _pull_request(payload)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"the file of GITHUB_EVENT_PATH is no event '{name}': it lacks {error}",
            hint="leave both variables as the job has them",
        ) from None


def _payload(path: str) -> Any:
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError):
        raise UsageError(
            f"the file of GITHUB_EVENT_PATH cannot be read: '{path}'",
            hint="leave the variable as the job has it",
        ) from None


def _push(payload: Any) -> Event:
    branch = f"refs/heads/{payload['repository']['default_branch']}"
    if payload["ref"] != branch or payload["deleted"]:
        return Event("nothing", why=f"a push to {payload['ref']} deploys nothing")
    return Event("deploy", commit=str(payload["after"]), why=f"a push to {payload['ref']}")


def _pull_request(payload: Any) -> Event:
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
        # A label that it had before says nothing of what was pushed since.
        given,
    )


def _of_gitlab(variables: Mapping[str, str]) -> Event:
    said = variables.get("CI_MERGE_REQUEST_IID", "")
    if said:
        if not said.isdecimal():
            raise UsageError(
                f"CI_MERGE_REQUEST_IID is no number: '{said}'",
                hint="leave the variable as the job has it",
            )
        ends = variables.get("CI_ENVIRONMENT_ACTION") == "stop"
        source = variables.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", "")
        own = source == variables.get("CI_MERGE_REQUEST_PROJECT_ID")
        path = variables.get("CI_MERGE_REQUEST_SOURCE_PROJECT_PATH") or "unknown"
        labels = variables.get("CI_MERGE_REQUEST_LABELS", "")
        # A pipeline of merged results runs for a commit that only it has.
        commit = variables.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or variables["CI_COMMIT_SHA"]
        return Event(
            "close" if ends else "check",
            int(said),
            commit,
            f"merge request {said} {'ended' if ends else 'changed'}",
            "" if own else path,
            tuple(labels.split(",")) if labels else (),
        )
    branch = variables.get("CI_COMMIT_BRANCH", "")
    if not branch or branch != variables.get("CI_DEFAULT_BRANCH"):
        return Event("nothing", why=f"a pipeline of '{branch}' deploys nothing")
    return Event("deploy", commit=variables["CI_COMMIT_SHA"], why=f"a push to {branch}")
