"""Generated policies that give the rights of others, in every form: none passes. Ordinary ones do."""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufleet.policies.rules.security._actions import DELETES, GAINS, LAUNCHES, RUNS, TOGETHER
from gpufleet.policies.rules.security._documents import parse
from gpufleet.policies.rules.security._grants import Grants
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from tests.unit.policies.security.test_nodes_and_clusters import fleet

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]

ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
ROLE = "aws:iam/role:Role"
ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
LETTERS = string.ascii_lowercase + string.digits
ACCOUNT = "123456789012"

many = settings(
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def policy(*statements: dict[str, Any], name: str = "policy", role: str = "nodes") -> Described:
    document = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    return {"type": ROLE_POLICY, "name": name, "props": {"policy": document, "role": role}}


def allow(action: Any, resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def refused(ask: Ask, *resources: Described) -> list[RuleViolation]:
    """Violations of the rule on single documents, or else of the one on the sum of a role's policies."""
    found = [each for resource in resources for each in ask("iam-no-wildcards", resource)]
    return found or ask("iam-no-combined-rights", *resources)


@st.composite
def cases_of(draw: st.DrawFn, text: str) -> str:
    """The text with letters of either case."""
    upper = draw(st.lists(st.booleans(), min_size=len(text), max_size=len(text)))
    return "".join(each.upper() if up else each for each, up in zip(text, upper, strict=True))


@st.composite
def patterns_of(draw: st.DrawFn, action: str) -> str:
    """An action in another case, or a pattern that matches it and is no list of reads."""
    service, _, name = action.partition(":")
    form = draw(st.sampled_from(("name", "end", "start", "middle", "question")))
    at = draw(st.integers(min_value=1, max_value=len(name) - 1))
    written = {
        "name": name,
        "end": f"{name[:at]}*",
        "start": f"*{name[at:]}",
        "middle": f"{name[:at]}*{name[-1]}",
        "question": f"{name[:at]}?{name[at + 1 :]}",
    }[form]
    return draw(cases_of(f"{service}:{written}"))


@st.composite
def all_resources(draw: st.DrawFn, service: str) -> list[str]:
    """All resources of a service, as one pattern or as a list of patterns that each look narrow."""
    kind = draw(st.sampled_from(("instance/", "role/", "", "key/", "table/")))
    region = draw(st.sampled_from(("", "*", "us-east-1")))
    account = draw(st.sampled_from(("", "*", ACCOUNT)))
    start = f"arn:aws:{service}:{region}:{account}:{kind}"
    forms = {
        "star": ["*"],
        "stars": ["**"],
        "service": [f"arn:aws:{service}:*"],
        "type": [f"{start}*"],
        "nested": [f"{start}*/*"],
        "variable": [f"{start}${{aws:PrincipalTag/anything}}"],
        "letters": [f"{start}{each}*" for each in LETTERS],
        "pairs": [f"{start}{a}{b}*" for a in LETTERS[:12] for b in LETTERS],
        "floating": [f"{start}*{each}*" for each in "aeiou"],
        "questions": [f"{start}?*", f"{start}??????????*"],
    }
    found = forms[draw(st.sampled_from(sorted(forms)))]
    return list(draw(st.permutations(found))) if len(found) < 40 else found


@st.composite
def split(draw: st.DrawFn, action: Any, resources: list[str]) -> list[Described]:
    """One grant over several statements and policies of a role."""
    parts = draw(st.integers(min_value=1, max_value=min(4, len(resources))))
    statements = [allow(action, resources[index::parts]) for index in range(parts)]
    documents = draw(st.integers(min_value=1, max_value=parts))
    return [policy(*statements[index::documents], name=f"p{index}") for index in range(documents)]


@many
@given(data=st.data())
def test_no_form_of_an_action_that_gains_rights_or_deletes_passes(ask: Ask, data: st.DataObject) -> None:
    action = data.draw(st.sampled_from((*GAINS, *RUNS, *DELETES)))
    pattern = data.draw(patterns_of(action))
    resources = data.draw(all_resources(action.partition(":")[0]))
    assert refused(ask, *data.draw(split(pattern, resources))), (pattern, resources)


@many
@given(data=st.data())
def test_no_condition_that_is_true_for_others_makes_it_pass(ask: Ask, data: st.DataObject) -> None:
    action = data.draw(st.sampled_from((*GAINS, *RUNS, *DELETES)))
    operator, key, value = data.draw(
        st.sampled_from(
            (
                ("StringEqualsIfExists", "aws:ResourceTag/team", "ml"),
                ("ForAllValues:StringEquals", "aws:ResourceTag/team", "ml"),
                ("StringNotEquals", "aws:ResourceTag/team", "ml"),
                ("StringNotLike", "aws:ResourceTag/team", "ml"),
                ("StringLike", "aws:ResourceTag/team", "*"),
                ("StringLike", "aws:ResourceTag/team", "?*"),
                ("StringEquals", "aws:ResourceTag/team", "${aws:ResourceTag/team}"),
                ("StringEquals", "aws:ResourceTag/team", "${aws:RequestTag/team}"),
                ("Null", "aws:ResourceTag/team", "true"),
                ("Null", "aws:ResourceTag/Name", "false"),
                ("Null", "aws:ResourceTag/kubernetes.io/cluster", "true"),
                ("StringEquals", "aws:RequestedRegion", "us-east-1"),
                ("StringLike", "aws:UserAgent", "*aws-cli*"),
                ("StringEquals", "aws:PrincipalTag/team", "ml"),
                ("Bool", "aws:SecureTransport", "true"),
                ("DateGreaterThan", "aws:CurrentTime", "2020-01-01T00:00:00Z"),
            )
        )
    )
    condition = {data.draw(cases_of(operator)): {data.draw(cases_of(key)): value}}
    assert refused(ask, policy(allow(action, "*", Condition=condition))), condition


@many
@given(data=st.data())
def test_passing_any_role_to_a_service_that_the_role_can_start_is_found(
    ask: Ask, data: st.DataObject
) -> None:
    service = data.draw(st.sampled_from(sorted(LAUNCHES)))
    run = data.draw(st.sampled_from(LAUNCHES[service]))
    roles = data.draw(
        st.sampled_from(
            (
                ["*"],
                [f"arn:aws:iam::{ACCOUNT}:role/*"],
                ["arn:aws:iam::*:role/*"],
                [f"arn:aws:iam::{ACCOUNT}:role/*Admin*"],
                [f"arn:aws:iam::{ACCOUNT}:role/${{aws:PrincipalTag/role}}"],
                [f"arn:aws:iam::{ACCOUNT}:*"],
                [f"arn:aws:iam::{ACCOUNT}:role/{each}*" for each in LETTERS],
            )
        )
    )
    condition = data.draw(
        st.sampled_from(
            (
                {"StringEquals": {"iam:PassedToService": f"{service}.amazonaws.com"}},
                {"StringLike": {"iam:PassedToService": "*.amazonaws.com"}},
                {"StringEqualsIfExists": {"iam:PassedToService": f"{service}.amazonaws.com"}},
                {"StringNotEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
                {"Null": {"iam:PassedToService": "false"}},
            )
        )
    )
    passing = allow(data.draw(patterns_of("iam:passrole")), roles, Condition=condition)
    running = allow(
        data.draw(cases_of(run)), data.draw(st.sampled_from(("*", f"arn:aws:x:y:{ACCOUNT}:z/one")))
    )
    together = data.draw(st.booleans())
    parts = [policy(passing, running)] if together else [policy(passing), policy(running, name="other")]
    assert refused(ask, *parts), (passing, running)


@pytest.mark.parametrize("actions", TOGETHER)
def test_actions_that_together_run_code_are_found_over_two_policies(
    ask: Ask, actions: tuple[str, ...]
) -> None:
    parts = [policy(allow(action), name=f"p{index}") for index, action in enumerate(actions)]
    assert [
        each for part in parts for each in ask("iam-no-wildcards", part)
    ] == [] or "modifyinstance" in str(actions)
    assert refused(ask, *parts)


@pytest.mark.parametrize(
    "resource",
    [
        "*",
        f"arn:aws:iam::{ACCOUNT}:role/*",
        "arn:aws:iam::*:role/OrganizationAccountAccessRole",
        "arn:aws:iam::*",
    ],
)
def test_assuming_any_role_or_one_of_any_account_is_found(ask: Ask, resource: str) -> None:
    assert refused(ask, policy(allow("sts:AssumeRole", resource)))


@pytest.mark.parametrize(
    "action", ["iam:PutRolePolicy", "iam:AttachRolePolicy", "iam:updateassumerolepolicy"]
)
def test_role_that_may_change_itself_is_found(ask: Ask, action: str) -> None:
    nodes = {"type": ROLE, "name": "nodes", "props": {"name": "atlas-nodes"}}
    own = policy(allow(action, f"arn:aws:iam::{ACCOUNT}:role/atlas-*"), role="atlas-nodes")
    other = policy(allow(action, f"arn:aws:iam::{ACCOUNT}:role/reports"), role="atlas-nodes")
    assert refused(ask, nodes, own)
    assert refused(ask, nodes, other) == []


def role_of(pattern: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:role/{pattern}"


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("iam:PutRolePolicy", role_of("team/*")),
        ("iam:PutRolePolicy", role_of("atlas-*")),
    ],
)
@pytest.mark.parametrize("name", [None, UNKNOWN])
def test_role_without_a_known_name_is_compared_with_no_pattern(
    ask: Ask, action: str, resource: str, name: Any
) -> None:
    nodes = {"type": ROLE, "name": "nodes", "props": {} if name is None else {"name": name}}
    own = {**policy(allow(action, resource)), "depends": {"role": ["nodes"]}}
    own["props"]["role"] = UNKNOWN
    assert ask("iam-no-combined-rights", nodes, own) == []


OF_FLEET = {"StringEquals": {"iam:ResourceTag/gpufleet:fleet": "atlas"}}
OF_TEAM = {"StringEquals": {"iam:ResourceTag/team": "ml"}}


@pytest.mark.parametrize(
    "statement",
    [
        allow("iam:PutRolePolicy", role_of("atlas-*"), Condition=OF_TEAM),
        allow("iam:PutUserPolicy", role_of("atlas-*")),
        allow("iam:PutRolePolicy", f"arn:aws:iam::{ACCOUNT}:user/atlas-*"),
        allow("sts:AssumeRole", role_of("reports")),
        allow("sts:AssumeRole", "arn:aws:iam::*:user/reports"),
        allow("sts:AssumeRole", "reports"),
        allow("sts:AssumeRole", Condition=OF_FLEET),
        allow("iam:PassRole", Condition=OF_FLEET),
        allow("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:policy/any"),
        allow("ecs:RunTask", Condition={"StringEquals": {"aws:RequestTag/team": "ml"}}),
    ],
)
def test_statement_for_one_role_or_for_roles_of_the_fleet_passes(ask: Ask, statement: dict[str, Any]) -> None:
    assert [each.message for each in refused(ask, policy(statement, role="atlas-nodes"))] == []


@pytest.mark.parametrize(
    "statement",
    [
        allow("s3:DeleteObject", "arn:aws:s3:::a*"),
        allow("sts:AssumeRole", role_of("a*")),
        allow("sts:AssumeRole", role_of("/a*")),
        allow("sts:AssumeRole", Condition=OF_TEAM),
        allow("iam:PassRole", role_of("a*")),
        allow("iam:PassRole", "*:role/Admin"),
        allow("iam:PassRole", role_of("*Admin*")),
        allow("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:*"),
        allow("iam:PassRole", Condition=OF_TEAM),
        allow("iam:PassRole", Condition={"Null": {"iam:ResourceTag/gpufleet:fleet": "false"}}),
        allow("iam:PassRole", Condition={"StringEquals": {"iam:AssociatedResourceArn": "ec2.amazonaws.com"}}),
        allow("iam:PassRole", Condition={"StringLike": {"iam:PassedToService": ["ec2.amazonaws.com", "*"]}}),
        {"Effect": "Allow", "Action": "iam:PassRole", "NotResource": role_of("admin")},
    ],
)
def test_statement_for_the_roles_or_objects_of_one_letter_passes_as_little_as_for_all(
    ask: Ask, statement: dict[str, Any]
) -> None:
    assert refused(ask, policy(statement))


def grants(*statements: dict[str, Any], own: str = "") -> list[str]:
    return list(Grants(parse({"Statement": list(statements)}), own).reasons(["describe*"]))


def test_pattern_of_actions_on_patterns_for_all_resources_is_found_once() -> None:
    letters = [f"arn:aws:iot:us-east-1:{ACCOUNT}:thing/{each}*" for each in LETTERS]
    assert grants(allow("iot:Delete*", letters)) == [
        "allows 'iot:delete*' on patterns that together are all resources"
    ]
    assert grants(allow("iot:Describe*", letters)) == []
    assert grants(allow("iot:Delete*", letters[:1] * 3)) != []
    assert grants(allow("iot:Delete*", f"arn:aws:iot:us-east-1:{ACCOUNT}:thing/a1b2*")) == []


def test_message_lists_three_actions_and_counts_the_others() -> None:
    names = [
        "iot:DeleteThing",
        "iot:DeletePolicy",
        "iot:DeleteStream",
        "iot:DeleteJob",
        "iot:DeleteFleetMetric",
    ]
    found = [
        "allows iot:deletething, iot:deletepolicy, iot:deletestream",
        "on all resources, which destroys or stops what others need",
    ]
    for count, more in ((3, " "), (4, " and 1 more "), (5, " and 2 more ")):
        assert more.join(found) in grants(allow(names[:count]))


def test_tag_of_a_resource_restricts_only_who_may_not_give_it() -> None:
    tagged = allow("ec2:TerminateInstances", Condition={"StringEquals": {"aws:ResourceTag/team": "ml"}})
    instances = f"arn:aws:ec2:us-east-1:{ACCOUNT}:instance"
    assert grants(tagged) == []
    assert grants(tagged, allow("ec2:CreateTags", f"{instances}/i-0a1b2c3d4e5f60718")) == []
    assert grants(tagged, allow("ec2:CreateTags", f"{instances}/i-0a*"))
    assert grants(tagged, allow("tag:TagResources"))


def test_tag_of_a_request_restricts_what_is_started_for_who_may_give_tags() -> None:
    started = allow("ecs:RunTask", Condition={"StringEquals": {"aws:RequestTag/team": "ml"}})
    assert grants(started, allow("ecs:TagResource")) == []


@pytest.mark.parametrize(("name", "passes"), [("reports", True), ("a*", False)])
def test_role_for_a_service_that_no_list_has_is_found_with_what_writes_there(name: str, passes: bool) -> None:
    to_new = {"StringEquals": {"iam:PassedToService": "new.amazonaws.com"}}
    passing = allow("iam:PassRole", role_of(name), Condition=to_new)
    assert (grants(passing, allow("new:StartThing", "one")) == []) is passes
    assert grants(passing, allow("new:DescribeThing", "one")) == []


def to(service: str) -> dict[str, Any]:
    return {"Condition": {"StringEquals": {"iam:PassedToService": f"{service}.amazonaws.com"}}}


def test_roles_for_one_service_are_added_up_with_those_for_any_and_not_with_those_for_another() -> None:
    first, second = ([role_of(f"a{each}*") for each in LETTERS[at::2]] for at in (0, 1))
    launches, starts = allow("ec2:RunInstances"), allow("new:StartThing", "one")
    assert grants(allow("iam:PassRole", role_of("a*"), **to("ec2")), launches)
    assert grants(allow("iam:PassRole", first), allow("iam:PassRole", second, **to("ec2")), launches)
    assert grants(allow("iam:PassRole", first, **to("ec2")), launches) == []
    apart = allow("iam:PassRole", first, **to("new")), allow("iam:PassRole", second, **to("newer"))
    assert grants(*apart, starts) == []


def test_role_whose_name_is_not_known_may_change_roles_of_a_path() -> None:
    changes = allow("iam:PutRolePolicy", role_of("team/*"))
    assert grants(changes) == []
    assert grants(changes, own="atlas-nodes")


def policy_with(arn: str, *statements: dict[str, Any]) -> Described:
    document = json.dumps({"Statement": list(statements)})
    return {"type": "aws:iam/policy:Policy", "name": "managed", "props": {"arn": arn, "policy": document}}


MANAGED = f"arn:aws:iam::{ACCOUNT}:policy/managed"


def attached(arn: Any, role: Any = "nodes", name: str = "attachment") -> Described:
    return {"type": ATTACHMENT, "name": name, "props": {"role": role, "policyArn": arn}}


def test_policy_of_the_stack_is_found_by_its_arn_and_counts(ask: Ask) -> None:
    to_ec2 = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
    passing = policy_with(MANAGED, allow("iam:PassRole", Condition=to_ec2))
    assert ask("iam-no-combined-rights", passing, attached(MANAGED)) == []
    (found,) = ask("iam-no-combined-rights", passing, attached(MANAGED), policy(allow("ec2:RunInstances")))
    assert "ec2:runinstances" in found.message


def test_policy_that_is_attached_twice_counts_once(ask: Ask) -> None:
    half = [f"arn:aws:s3:::a{each}*" for each in LETTERS[:20]]
    managed = policy_with(MANAGED, allow("s3:DeleteObject", half))
    twice = attached(MANAGED), attached(MANAGED, name="again")
    assert ask("iam-no-combined-rights", managed, *twice) == []


def test_unknown_arn_that_is_computed_from_no_policy_is_left_to_up(ask: Ask) -> None:
    assert ask("iam-no-combined-rights", attached(UNKNOWN)) == []


def test_grant_over_an_attached_and_an_inline_policy_is_found_before_arns_are_known(ask: Ask) -> None:
    nodes = {"type": ROLE, "name": "nodes", "props": {}}
    letters = [f"arn:aws:s3:::{each}{other}*" for each in "abcd" for other in LETTERS]
    half = json.dumps({"Statement": allow("s3:DeleteObject", letters[:30])})
    attached = {"type": "aws:iam/policy:Policy", "name": "managed", "props": {"policy": half}}
    attachment = {
        "type": ATTACHMENT,
        "name": "attachment",
        "props": {"role": UNKNOWN, "policyArn": UNKNOWN},
        "depends": {"role": ["nodes"], "policyArn": ["managed"]},
    }
    inline = {
        **policy(allow("s3:Delete*", letters[30:60])),
        "depends": {"role": ["nodes"]},
    }
    inline["props"]["role"] = UNKNOWN
    assert ask("iam-no-combined-rights", nodes, attached, inline) == []
    (found, *_) = ask("iam-no-combined-rights", nodes, attached, attachment, inline)
    assert "together" in found.message or "with the other policies" in found.message


@pytest.mark.parametrize(
    "arn", [f"arn:aws:iam::{ACCOUNT}:policy/whatever", "arn:aws:iam::999999999999:policy/team/x"]
)
def test_policy_that_the_stack_does_not_define_is_found_unless_reviewed(ask: Ask, arn: str) -> None:
    attached = {"type": ATTACHMENT, "props": {"role": "nodes", "policyArn": arn}}
    (found,) = ask("iam-no-combined-rights", attached)
    assert arn in found.message
    assert ask("iam-no-combined-rights", attached, settings={"reviewed": [arn]}) == []


def test_policies_inside_a_role_count_with_those_beside_it(ask: Ask) -> None:
    to_ec2 = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
    passing = json.dumps({"Statement": allow("iam:PassRole", Condition=to_ec2)})
    nodes = {
        "type": ROLE,
        "name": "nodes",
        "props": {"name": "nodes", "inlinePolicies": [{"name": "pass", "policy": passing}]},
    }
    assert refused(ask, nodes) == []
    (found,) = ask("iam-no-combined-rights", nodes, policy(allow("ec2:RunInstances")))
    assert "ec2:runinstances" in found.message
    outside = f"arn:aws:iam::{ACCOUNT}:policy/whatever"
    attached = {"type": ROLE, "name": "nodes", "props": {"managedPolicyArns": [outside]}}
    assert ask("iam-no-combined-rights", attached)


@pytest.mark.parametrize("service", ["ec2", "pods.eks", "backup"])
def test_policy_for_a_service_of_aws_is_refused_on_nodes_and_pods(ask: Ask, service: str) -> None:
    trust = {"Statement": {"Effect": "Allow", "Principal": {"Service": f"{service}.amazonaws.com"}}}
    role = {"type": ROLE, "name": "r", "props": {"name": "r", "assumeRolePolicy": json.dumps(trust)}}
    arn = "arn:aws:iam::aws:policy/service-role/AWSBackupServiceRolePolicyForBackup"
    attached = {"type": ATTACHMENT, "name": "a", "props": {"role": "r", "policyArn": arn}}
    assert bool(ask("iam-no-combined-rights", role, attached)) == (service != "backup")


def service_policy(holder: dict[str, str]) -> Described:
    arn = "arn:aws:iam::aws:policy/service-role/AWSBackupServiceRolePolicyForBackup"
    (prop,) = holder
    kind = f"aws:iam/{prop}PolicyAttachment:{prop.capitalize()}PolicyAttachment"
    return {"type": kind, "name": "a", "props": {**holder, "policyArn": arn}}


@pytest.mark.parametrize("holder", [{"role": "elsewhere"}, {"user": "someone"}, {"group": "someone"}])
def test_policy_for_a_service_of_aws_is_refused_on_people_and_on_roles_outside_the_stack(
    ask: Ask, holder: dict[str, str]
) -> None:
    user = {"type": "aws:iam/user:User", "name": "u", "props": {"name": "someone"}}
    (found,) = ask("iam-no-combined-rights", user, service_policy(holder))
    assert "is for nodes or pods" in found.message


@pytest.mark.parametrize(
    ("trust", "refused_there"),
    [
        (UNKNOWN, True),
        ({"AWS": f"arn:aws:iam::{ACCOUNT}:role/atlas"}, True),
        ({"Service": ["backup.amazonaws.com", " EC2.amazonaws.com"]}, True),
        ({"Service": "ec2.amazonaws.com.cn"}, True),
        ({"Service": "backup.amazonaws.com"}, False),
    ],
)
def test_policy_for_a_service_of_aws_is_for_roles_that_only_services_assume(
    ask: Ask, trust: Any, refused_there: bool
) -> None:
    document = (
        trust if trust is UNKNOWN else json.dumps({"Statement": {"Effect": "Allow", "Principal": trust}})
    )
    role = {"type": ROLE, "name": "r", "props": {"name": "r", "assumeRolePolicy": document}}
    assert bool(ask("iam-no-combined-rights", role, service_policy({"role": "r"}))) is refused_there


@pytest.mark.parametrize(
    ("name", "title"),
    [("atlas-nodes", "of atlas-nodes it"), (UNKNOWN, "of nodes it"), (None, "of x it")],
)
def test_message_names_the_role_by_what_is_known(ask: Ask, name: Any, title: str) -> None:
    to_ec2 = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
    parts = [
        policy(allow("iam:PassRole", Condition=to_ec2), name="pass", role="x"),
        policy(allow("ec2:RunInstances"), name="run", role="x"),
    ]
    nodes = [{"type": ROLE, "name": "nodes", "props": {"name": name}}] if name is not None else []
    for each in parts if nodes else ():
        each["props"]["role"], each["depends"] = UNKNOWN, {"role": ["nodes"]}
    (found,) = ask("iam-no-combined-rights", *nodes, *parts)
    assert title in found.message


def test_grant_of_one_policy_is_reported_for_that_policy_only(ask: Ask) -> None:
    wide = policy(allow("s3:DeleteObject", "arn:aws:s3:::a*"))
    assert ask("iam-no-wildcards", wide)
    assert ask("iam-no-combined-rights", wide, policy(allow("ec2:DescribeInstances"), name="other")) == []


def test_statement_that_is_too_wide_is_reported_once(ask: Ask) -> None:
    (found,) = ask("iam-no-wildcards", policy(allow("iot:Delete*")))
    assert "too wide: Statement[0] allows 'iot:delete*' on all resources" in found.message


def test_name_of_a_policy_in_place_of_its_arn_is_found(ask: Ask) -> None:
    assert ask("iam-no-combined-rights", attached("whatever"))


def test_beginning_of_all_names_of_the_fleet_is_as_wide_as_a_star(ask: Ask) -> None:
    deletes = policy(allow("s3:DeleteObject", "arn:aws:s3:::atlas-prod-*"))
    assert ask("iam-no-wildcards", deletes) == []
    assert ask("iam-no-wildcards", deletes, fleet=fleet("prod"))
    named = policy(allow("s3:DeleteObject", "arn:aws:s3:::atlas-prod-corpus*"))
    assert ask("iam-no-wildcards", named, fleet=fleet("prod")) == []


# managed policies


def test_attachment_under_ignore_changes_is_found(ask: Ask) -> None:
    good = {"policyArn": "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"}
    described = {"type": ATTACHMENT, "props": good, "options": {"ignoreChanges": ["policyArn"]}}
    (found,) = ask("iam-no-admin-policies", described)
    assert "ignoreChanges" in found.message


def test_powerful_policy_with_a_narrow_name_is_allowed_by_a_setting(ask: Ask) -> None:
    arn = "arn:aws:iam::aws:policy/EC2InstanceConnect"
    assert ask("iam-no-admin-policies", attached(arn))
    assert ask("iam-no-admin-policies", attached(arn), settings={"powerful": False}) == []


@many
@given(data=st.data())
def test_no_powerful_managed_policy_passes_in_any_form(ask: Ask, data: st.DataObject) -> None:
    name = data.draw(
        st.sampled_from(
            (
                "AdministratorAccess",
                "PowerUserAccess",
                "IAMFullAccess",
                "AmazonEC2FullAccess",
                "AmazonS3FullAccess",
                "AmazonEKSMCPReadWriteFullAccess",
                "AWSLambda_FullAccess",
                "AmazonSSMFullAccess",
                "job-function/SystemAdministrator",
                "job-function/DatabaseAdministrator",
                "job-function/DataScientist",
                "SecretsManagerReadWrite",
                "AWSCodeBuildDeveloperAccess",
                "EC2InstanceConnect",
                "AWSOpsWorksRegisterCLI",
            )
        )
    )
    partition = data.draw(st.sampled_from(("aws", "aws-cn", "aws-us-gov")))
    arn = f"arn:{partition}:iam::aws:policy/{data.draw(cases_of(name))}"
    kind, prop = data.draw(
        st.sampled_from(
            (
                (ATTACHMENT, "policyArn"),
                ("aws:iam/policyAttachment:PolicyAttachment", "policyArn"),
                ("aws:iam/groupPolicyAttachment:GroupPolicyAttachment", "policyArn"),
                ("aws:iam/rolePolicyAttachmentsExclusive:RolePolicyAttachmentsExclusive", "policyArns"),
                (ROLE, "managedPolicyArns"),
            )
        )
    )
    value: Any = [arn] if prop.endswith("s") else arn
    assert ask("iam-no-admin-policies", {"type": kind, "props": {prop: value}}), arn


@pytest.mark.parametrize(
    "name",
    [
        "AmazonSSMManagedInstanceCore",
        "AmazonEKSWorkerNodePolicy",
        "AmazonEKS_CNI_Policy",
        "AmazonEKSClusterPolicy",
        "service-role/AmazonEBSCSIDriverPolicy",
        "CloudWatchAgentServerPolicy",
        "AmazonS3ReadOnlyAccess",
        "AmazonElasticFileSystemClientFullAccess",
        "AmazonEC2ContainerRegistryPullOnly",
    ],
)
def test_managed_policy_for_a_purpose_passes(ask: Ask, name: str) -> None:
    attached = {
        "type": ATTACHMENT,
        "props": {"policyArn": f"arn:aws:iam::aws:policy/{name}", "role": "nodes"},
    }
    assert ask("iam-no-admin-policies", attached) == []
    assert ask("iam-no-combined-rights", attached) == []


def test_permissions_boundary_grants_nothing(ask: Ask) -> None:
    role = {"type": ROLE, "props": {"permissionsBoundary": "arn:aws:iam::aws:policy/PowerUserAccess"}}
    assert ask("iam-no-admin-policies", role) == []
    assert ask("iam-no-combined-rights", role) == []


# ordinary policies


@many
@given(data=st.data())
def test_any_action_on_named_resources_passes(ask: Ask, data: st.DataObject) -> None:
    action = data.draw(st.sampled_from((*GAINS, *RUNS, *DELETES, "s3:*", "dynamodb:*")))
    service = action.partition(":")[0]
    name = data.draw(st.text(alphabet=LETTERS, min_size=4, max_size=20))
    end = data.draw(st.sampled_from(("", "*", "-*", "/*")))
    arn = f"arn:aws:{service}:us-east-1:{ACCOUNT}:thing/{name}{end}"
    bucket = f"arn:aws:s3:::{name}{end}"
    assert refused(ask, policy(allow(action, bucket if service == "s3" else arn), role="someone")) == []


CONTROLLERS = {
    "autoscaler": [
        allow(["autoscaling:Describe*", "ec2:DescribeInstanceTypes", "eks:DescribeNodegroup"]),
        allow(
            ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"],
            Condition={"StringEquals": {"aws:ResourceTag/k8s.io/cluster-autoscaler/atlas": "owned"}},
        ),
    ],
    "autoscaler by name": [
        allow(
            "autoscaling:TerminateInstanceInAutoScalingGroup",
            f"arn:aws:autoscaling:us-east-1:{ACCOUNT}:autoScalingGroup:*:autoScalingGroupName/atlas",
        ),
    ],
    "karpenter": [
        allow(["ec2:RunInstances", "ec2:CreateFleet"], ["arn:aws:ec2:us-east-1::image/*"]),
        allow(
            ["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"],
            ["arn:aws:ec2:us-east-1:*:instance/*", "arn:aws:ec2:us-east-1:*:launch-template/*"],
            Condition={
                "StringEquals": {"aws:RequestTag/kubernetes.io/cluster/atlas": "owned"},
                "StringLike": {"aws:RequestTag/karpenter.sh/nodepool": "*"},
            },
        ),
        allow(
            ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
            "arn:aws:ec2:us-east-1:*:instance/*",
            Condition={"StringEquals": {"aws:ResourceTag/kubernetes.io/cluster/atlas": "owned"}},
        ),
        allow(
            "iam:PassRole",
            f"arn:aws:iam::{ACCOUNT}:role/KarpenterNodeRole-atlas",
            Condition={"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
        ),
    ],
    "load balancers": [
        allow(
            "iam:CreateServiceLinkedRole",
            Condition={"StringEquals": {"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"}},
        ),
        allow(["ec2:AuthorizeSecurityGroupIngress", "ec2:CreateSecurityGroup"]),
        allow(
            ["elasticloadbalancing:DeleteLoadBalancer", "ec2:DeleteSecurityGroup"],
            Condition={"Null": {"aws:ResourceTag/elbv2.k8s.aws/cluster": "false"}},
        ),
    ],
    "volumes": [
        allow(["ec2:CreateSnapshot", "ec2:AttachVolume", "ec2:ModifyVolume"]),
        allow(
            "ec2:DeleteVolume", Condition={"StringLike": {"ec2:ResourceTag/ebs.csi.aws.com/cluster": "true"}}
        ),
        allow("ec2:DeleteVolume", Condition={"StringLike": {"ec2:ResourceTag/CSIVolumeName": "*"}}),
    ],
    "tags of the caller": [
        allow(
            "ec2:TerminateInstances",
            Condition={"StringEquals": {"aws:ResourceTag/team": "${aws:PrincipalTag/team}"}},
        ),
    ],
    "registry": [
        allow("ecr:GetAuthorizationToken"),
        allow(["ecr:BatchGetImage"], f"arn:aws:ecr:us-east-1:{ACCOUNT}:repository/atlas/*"),
    ],
    "logs": [
        allow(
            ["logs:CreateLogStream", "logs:PutLogEvents"], f"arn:aws:logs:*:{ACCOUNT}:log-group:/aws/eks/*:*"
        ),
        allow("logs:DeleteLogGroup", f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:/aws/eks/atlas/*:*"),
    ],
    "delegated roles": [
        allow(
            ["iam:CreateRole", "iam:PutRolePolicy", "iam:AttachRolePolicy"],
            Condition={
                "StringEquals": {"iam:PermissionsBoundary": f"arn:aws:iam::{ACCOUNT}:policy/boundary"}
            },
        ),
    ],
    "pass to a service that the role cannot start": [
        allow("iam:PassRole", Condition={"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}),
        allow("lambda:CreateFunction", f"arn:aws:lambda:us-east-1:{ACCOUNT}:function:reports"),
    ],
}


@pytest.mark.parametrize("name", CONTROLLERS)
def test_policy_of_a_controller_passes(ask: Ask, name: str) -> None:
    """Their permissions as their projects publish them, in August 2026."""
    assert [each.message for each in refused(ask, policy(*CONTROLLERS[name], role="controller"))] == []
