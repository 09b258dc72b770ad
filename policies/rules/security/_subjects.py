"""Subjects of identity providers in trust policies: one repository, project or service account each.

Sources: GitHub Docs, "OpenID Connect reference" (subjects, also with a template of the organisation, which
can leave out the repository); GitLab Docs, "Connect to cloud services" (`project_path:`); CircleCI,
Buildkite, Terraform Cloud and Bitbucket, their pages on OpenID Connect; Amazon EKS User Guide, "IAM roles for
service accounts"; Amazon Cognito Developer Guide, "IAM roles" (`aud` is the identity pool, `amr` its kind of
user).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpufleet.policies.rules.security._conditions import EXACT, LIKE, Condition
from gpufleet.policies.rules.security._patterns import has_wildcard

_NAME = r"[^:/*?$]+"
_REST = r"(:.*)?"

_FORMS: Mapping[str, re.Pattern[str]] = {
    "token.actions.githubusercontent.com": re.compile(
        rf"(repo|repository):{_NAME}/{_NAME}{_REST}|repository_id:\d+{_REST}"
        rf"|job_workflow_ref:{_NAME}/{_NAME}/[^*?$]+"
    ),
    "gitlab.com": re.compile(rf"project_path:{_NAME}(/{_NAME})+{_REST}"),
    "oidc.circleci.com": re.compile(rf"org/{_NAME}/project/{_NAME}(/.*)?"),
    "agent.buildkite.com": re.compile(rf"organization:{_NAME}:pipeline:{_NAME}{_REST}"),
    "app.terraform.io": re.compile(rf"organization:{_NAME}:project:{_NAME}:workspace:{_NAME}{_REST}"),
    "api.bitbucket.org": re.compile(rf"\{{?[0-9a-f-]{{36}}\}}?{_REST}"),
}
"""Host of a provider -> subjects of one repository, project or workspace; the rest may be a pattern."""

_COGNITO = "cognito-identity.amazonaws.com"


def named_subject(provider: str, conditions: Iterable[Condition]) -> bool:
    """Return whether the conditions name one subject of the provider (an ARN or a host), and its audience.

    A subject of an unknown provider must have no pattern. SAML providers need one on `saml:sub` or its like.
    """
    found = [each for each in conditions if each.plain in EXACT | LIKE and each.values]
    if ":saml-provider/" in provider:
        return any(each.key in ("saml:sub", "saml:namequalifier") and _all_exact(each) for each in found)
    host = provider.rpartition("oidc-provider/")[2].strip("/ ").lower()
    if host == _COGNITO:
        kinds = [each for each in found if each.key == f"{host}:amr"]
        return _audience(host, found) and any(
            all(value.strip() == "authenticated" for value in each.values) for each in kinds
        )
    form = _FORMS.get(host.partition("/")[0])
    subjects = [each for each in found if each.key == f"{host}:sub"]
    return _audience(host, found) and any(
        all(_one(form, each, value.strip()) for value in each.values) for each in subjects
    )


def _audience(host: str, conditions: Iterable[Condition]) -> bool:
    return any(each.key == f"{host}:aud" and _all_exact(each) for each in conditions)


def _all_exact(condition: Condition) -> bool:
    return all(value.strip() and not has_wildcard(value) for value in condition.values)


def _one(form: re.Pattern[str] | None, condition: Condition, value: str) -> bool:
    if form is not None:
        return form.fullmatch(value) is not None
    return bool(value) and not has_wildcard(value)
