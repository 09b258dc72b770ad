"""Launch templates: settings that moto loses, so that a describe returns what was given.

moto mixes the template's own tags into those of the instances, keeps the tags of the first day of
creation, and ignores SourceVersion.
"""

from __future__ import annotations

import re
from typing import Any

from gpufleet.lab.aws.backends import ec2_support as ec2
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, Passthrough, operation

NAME = re.compile(r"[a-zA-Z0-9().\-/_]{3,128}")
"""EC2 API reference, CreateLaunchTemplate."""

_FILTERS = {"launch-template-name": "LaunchTemplateName", "create-time": "CreateTime"}


@operation("ec2", "CreateLaunchTemplate")
def create_launch_template(call: Call) -> Params:
    """Create a template with its first version."""
    given, backend = call.params, ec2.ec2_backend(call)
    name = given["LaunchTemplateName"]
    if not NAME.fullmatch(name):
        message = f"Launch template name '{name}' is invalid: 3 to 128 letters, digits or ().-/_ are allowed."
        raise AwsError("InvalidLaunchTemplateName.MalformedException", message)
    data = _data(given.get("LaunchTemplateData"))
    tags = {"launch-template": ec2.tags_from(call, "launch-template")}
    template = backend.create_launch_template(name, given.get("VersionDescription") or "", data, tags)
    return {"LaunchTemplate": _answer(call, template)}


@operation("ec2", "CreateLaunchTemplateVersion")
def create_launch_template_version(call: Call) -> Params:
    """Add a version: the given data, over that of SourceVersion if one is named."""
    given, template = call.params, _find(call)
    data = _data(given.get("LaunchTemplateData"))
    if given.get("SourceVersion"):
        data = {**template.get_version(given["SourceVersion"]).data, **data}
    version = template.create_version(data, given.get("VersionDescription") or "")
    return {"LaunchTemplateVersion": _version_answer(call, template, version)}


@operation("ec2", "ModifyLaunchTemplate")
def modify_launch_template(call: Call) -> Params:
    """Set the default version."""
    template = _find(call)
    wanted = call.params.get("DefaultVersion")
    if wanted:
        template.default_version_number = _version(template, wanted).number
    return {"LaunchTemplate": _answer(call, template)}


@operation("ec2", "DescribeLaunchTemplates")
def describe_launch_templates(call: Call) -> Params:
    """Templates by id, name or filters, with the tags of today."""
    given, backend = call.params, ec2.ec2_backend(call)
    names, ids = given.get("LaunchTemplateNames") or [], given.get("LaunchTemplateIds") or []
    chosen = [backend.get_launch_template(one) for one in ids]
    chosen += [_by_name(backend, one) for one in names]
    if not names and not ids:
        chosen = list(backend.launch_templates.values())
    answers = [(one.id, _answer(call, one)) for one in chosen]
    kept = [a for one, a in answers if ec2.matches(call, one, a, given.get("Filters") or [], _FILTERS)]
    items, token = ec2.page(call, kept, default=200)
    return {"LaunchTemplates": items, "NextToken": token}


@operation("ec2", "DescribeLaunchTemplateVersions")
def describe_launch_template_versions(call: Call) -> Params | Passthrough:
    """The versions of one template; the latest or default of all is moto's."""
    given = call.params
    if not given.get("LaunchTemplateId") and not given.get("LaunchTemplateName"):
        return call.original()
    template = _find(call)
    wanted = given.get("Versions")
    if wanted:
        chosen = [_version(template, one) for one in wanted]
    else:
        first, last = int(given.get("MinVersion") or 1), int(given.get("MaxVersion") or 1 << 31)
        chosen = [one for one in template.versions if first <= one.number <= last]
    items, token = ec2.page(call, chosen, default=200)
    answers = [_version_answer(call, template, one) for one in items]
    return {"LaunchTemplateVersions": answers, "NextToken": token}


@operation("ec2", "DeleteLaunchTemplate")
def delete_launch_template(call: Call) -> Params:
    """Delete a template with its versions and tags."""
    template = _find(call)
    answer = _answer(call, template)
    backend = ec2.ec2_backend(call)
    backend.delete_launch_template(None, template.id)
    ec2.forget_tags(call, template.id)
    return {"LaunchTemplate": answer}


def _find(call: Call) -> Any:
    backend = ec2.ec2_backend(call)
    if call.params.get("LaunchTemplateId"):
        return backend.get_launch_template(call.params["LaunchTemplateId"])
    return _by_name(backend, call.params.get("LaunchTemplateName") or "")


def _by_name(backend: Any, name: str) -> Any:
    if name not in backend.launch_template_name_to_ids:
        message = "At least one of the launch templates specified in the request does not exist."
        raise AwsError("InvalidLaunchTemplateName.NotFoundException", message)
    return backend.get_launch_template_by_name(name)


def _version(template: Any, wanted: str) -> Any:
    if not str(wanted).isdigit() and str(wanted) not in ("$Latest", "$Default"):
        message = f"Invalid launch template version: {wanted}"
        raise AwsError("InvalidLaunchTemplateId.VersionNotFound", message)
    return template.get_version(wanted)


def _data(given: Params | None) -> Params:
    from moto.ec2.utils import parse_user_data

    data = dict(given or {})
    if not data:
        raise AwsError("MissingParameter", "The request must contain the parameter LaunchTemplateData")
    if data.get("UserData") is not None:
        data["UserData"] = parse_user_data(data["UserData"])
    return data


def _answer(call: Call, template: Any) -> Params:
    return {
        "CreateTime": template.create_time,
        "CreatedBy": f"arn:{call.partition}:iam::{call.account}:root",
        "DefaultVersionNumber": template.default_version_number,
        "LatestVersionNumber": template.latest_version_number,
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "Tags": ec2.tag_list(call, template.id),
    }


def _version_answer(call: Call, template: Any, version: Any) -> Params:
    return {
        "CreateTime": version.create_time,
        "CreatedBy": f"arn:{call.partition}:iam::{call.account}:root",
        "DefaultVersion": template.is_default(version),
        "LaunchTemplateData": version.data,
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "VersionDescription": version.description,
        "VersionNumber": version.number,
    }
