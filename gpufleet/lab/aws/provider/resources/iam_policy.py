"""IAM's other resources: managed policies, instance profiles and OpenID Connect providers."""

from __future__ import annotations

from typing import ClassVar

from gpufleet.lab.aws.provider.errors import keep_on_failure
from gpufleet.lab.aws.provider.handler import AutoName, Aws, Defaults, Handler, only
from gpufleet.lab.aws.provider.mapper import Names, tag_list
from gpufleet.lab.aws.provider.resources.iam import document, document_problem
from gpufleet.lab.aws.provider.resources.tagging import retag
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.waiting import settle
from gpufleet.lab.aws.provider.wire import Props

_VERSIONS_KEPT = 5


class Policy(Handler):
    """aws.iam.Policy: a managed policy."""

    pulumi_type = "aws:iam/policy:Policy"
    force_new = frozenset({"description", "name", "namePrefix", "path"})
    defaults: ClassVar[Defaults] = {"path": "/"}
    documents = frozenset({"policy"})
    auto_name = AutoName(max_length=128)
    _names = Names(
        rename={"name": "PolicyName", "policy": "PolicyDocument"},
        encode={"policy": document},
        drop={"delayAfterPolicyCreationInMs"},
    )

    def check(self, inputs: Props) -> list[Problem]:
        """Check that the policy is JSON."""
        return document_problem(inputs, "policy")

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the policy."""
        parameters = only(inputs, "name", "path", "policy", "description")
        tags = {"Tags": tag_list(inputs["tags"])} if inputs.get("tags") else {}
        return str(aws.send("iam", "CreatePolicy", parameters, self._names, **tags)["Policy"]["Arn"])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the policy and its default version's document."""
        iam = aws.client("iam")
        found = iam.get_policy(PolicyArn=rid)["Policy"]
        version = iam.get_policy_version(PolicyArn=rid, VersionId=found["DefaultVersionId"])["PolicyVersion"]
        out = self.decode(found, Names(rename={"name": "PolicyName"}))
        out["policy"] = document(version["Document"])
        out["tags"] = out.get("tags", {})
        out.setdefault("description", None)
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Add a changed document as a new default version, and delete the oldest one if needed."""
        iam = aws.client("iam")
        if "policy" in changed:
            versions = iam.list_policy_versions(PolicyArn=rid)["Versions"]
            spare = sorted(
                (v for v in versions if not v["IsDefaultVersion"]), key=lambda v: int(v["VersionId"][1:])
            )
            if len(versions) >= _VERSIONS_KEPT:
                iam.delete_policy_version(PolicyArn=rid, VersionId=spare[0]["VersionId"])
            iam.create_policy_version(
                PolicyArn=rid, PolicyDocument=document(new["policy"]), SetAsDefault=True
            )
        retag(iam, {"PolicyArn": rid}, old, new, suffix="policy")

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the policy with its versions."""
        iam = aws.client("iam")
        for version in iam.list_policy_versions(PolicyArn=rid)["Versions"]:
            if not version["IsDefaultVersion"]:
                iam.delete_policy_version(PolicyArn=rid, VersionId=version["VersionId"])
        settle(lambda: iam.delete_policy(PolicyArn=rid), codes="DeleteConflict", timeout_s=5.0)


class InstanceProfile(Handler):
    """aws.iam.InstanceProfile."""

    pulumi_type = "aws:iam/instanceProfile:InstanceProfile"
    force_new = frozenset({"name", "namePrefix", "path"})
    defaults: ClassVar[Defaults] = {"path": "/"}
    auto_name = AutoName(max_length=128)
    _names = Names(rename={"name": "InstanceProfileName", "uniqueId": "InstanceProfileId"})

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the profile and add its role."""
        tags = {"Tags": tag_list(inputs["tags"])} if inputs.get("tags") else {}
        aws.send("iam", "CreateInstanceProfile", only(inputs, "name", "path"), self._names, **tags)
        rid = str(inputs["name"])
        with keep_on_failure(rid):
            self._set_role(aws, rid, None, inputs.get("role"))
        return rid

    @staticmethod
    def _set_role(aws: Aws, rid: str, old: str | None, new: str | None) -> None:
        iam = aws.client("iam")
        if old:
            iam.remove_role_from_instance_profile(InstanceProfileName=rid, RoleName=old)
        if new:
            settle(
                lambda: iam.add_role_to_instance_profile(InstanceProfileName=rid, RoleName=new),
                codes="NoSuchEntity|InvalidParameter", timeout_s=5.0,
            )  # fmt: skip

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The profile and its role."""
        found = aws.client("iam").get_instance_profile(InstanceProfileName=rid)["InstanceProfile"]
        out = self.decode(found, self._names)
        roles = found.get("Roles") or []
        out["role"] = roles[0]["RoleName"] if roles else None
        out["tags"] = out.get("tags", {})
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change role and tags in place."""
        if "role" in changed:
            self._set_role(aws, rid, old.get("role"), new.get("role"))
        retag(aws.client("iam"), {"InstanceProfileName": rid}, old, new, suffix="instance_profile")

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Remove the role, then delete the profile."""
        found = aws.client("iam").get_instance_profile(InstanceProfileName=rid)["InstanceProfile"]
        for role in found.get("Roles") or ():
            self._set_role(aws, rid, role["RoleName"], None)
        aws.client("iam").delete_instance_profile(InstanceProfileName=rid)


class OpenIdConnectProvider(Handler):
    """aws.iam.OpenIdConnectProvider."""

    pulumi_type = "aws:iam/openIdConnectProvider:OpenIdConnectProvider"
    force_new = frozenset({"url"})
    computed = frozenset({"thumbprintLists"})
    ordered = frozenset({"thumbprintLists"})
    delete_before_replace = True

    def create(self, aws: Aws, inputs: Props) -> str:
        """Register the issuer."""
        tags = {"Tags": tag_list(inputs["tags"])} if inputs.get("tags") else {}
        thumbprints = {"ThumbprintList": inputs["thumbprintLists"]} if inputs.get("thumbprintLists") else {}
        made = aws.client("iam").create_open_id_connect_provider(
            Url=_with_scheme(str(inputs["url"])), ClientIDList=inputs["clientIdLists"], **thumbprints, **tags
        )
        return str(made["OpenIDConnectProviderArn"])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The issuer, its audiences and thumbprints."""
        found = aws.client("iam").get_open_id_connect_provider(OpenIDConnectProviderArn=rid)
        declared = str(state.get("url", ""))
        url = str(found["Url"])
        return {
            "arn": rid,
            # AWS drops the scheme: keep the program's spelling while the issuer is the same.
            "url": declared if declared.removeprefix("https://") == url.removeprefix("https://") else url,
            "clientIdLists": sorted(found.get("ClientIDList") or ()),
            "thumbprintLists": list(found.get("ThumbprintList") or ()),
            "tags": {tag["Key"]: tag["Value"] for tag in found.get("Tags") or ()},
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change audiences, thumbprints and tags in place."""
        iam = aws.client("iam")
        identity = {"OpenIDConnectProviderArn": rid}
        if "thumbprintLists" in changed and new.get("thumbprintLists"):
            iam.update_open_id_connect_provider_thumbprint(**identity, ThumbprintList=new["thumbprintLists"])
        before, after = set(old.get("clientIdLists") or ()), set(new.get("clientIdLists") or ())
        for audience in sorted(after - before):
            iam.add_client_id_to_open_id_connect_provider(**identity, ClientID=audience)
        for audience in sorted(before - after):
            iam.remove_client_id_from_open_id_connect_provider(**identity, ClientID=audience)
        retag(iam, identity, old, new, suffix="open_id_connect_provider")

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the issuer."""
        aws.client("iam").delete_open_id_connect_provider(OpenIDConnectProviderArn=rid)


def _with_scheme(url: str) -> str:
    return url if url.startswith("https://") else f"https://{url}"


HANDLERS = (Policy(), InstanceProfile(), OpenIdConnectProvider())
