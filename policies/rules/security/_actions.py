"""IAM actions that gain rights, run code with the rights of others, or delete what others need.

Sources of the actions that gain rights: Rhino Security Labs, "AWS IAM Privilege Escalation Methods" (2019);
pathfinding.cloud (Datadog), as listed in salesforce/cloudsplaining, `shared/constants.py`, commit 5012eab1
(August 2026). The others follow from AWS's Service Authorization Reference. All names are in lower case.
"""

from __future__ import annotations

from collections.abc import Mapping


def _of(service: str, names: str) -> tuple[str, ...]:
    return tuple(f"{service}:{name}" for name in names.split())


GAINS: tuple[str, ...] = (
    *_of(
        "iam",
        "createpolicyversion setdefaultpolicyversion createaccesskey updateaccesskey createloginprofile "
        "updateloginprofile attachuserpolicy attachgrouppolicy attachrolepolicy putuserpolicy putgrouppolicy "
        "putrolepolicy addusertogroup updateassumerolepolicy deleteuserpermissionsboundary "
        "deleterolepermissionsboundary putuserpermissionsboundary putrolepermissionsboundary "
        "createservicespecificcredential resetservicespecificcredential deactivatemfadevice "
        "addclientidtoopenidconnectprovider updateopenidconnectproviderthumbprint updatesamlprovider",
    ),
    *_of(
        "sso",
        "createaccountassignment attachmanagedpolicytopermissionset "
        "attachcustomermanagedpolicyreferencetopermissionset putinlinepolicytopermissionset "
        "provisionpermissionset deletepermissionsboundaryfrompermissionset",
    ),
    *_of("identitystore", "creategroupmembership"),
    *_of("rolesanywhere", "createtrustanchor updatetrustanchor enabletrustanchor"),
    *_of("eks", "createaccessentry updateaccessentry associateaccesspolicy"),
    *_of("kms", "putkeypolicy creategrant decrypt reencryptfrom"),
    *_of("s3", "putbucketpolicy deletebucketpolicy putaccountpublicaccessblock putbucketpublicaccessblock"),
    *_of("secretsmanager", "putresourcepolicy getsecretvalue batchgetsecretvalue"),
    *_of("s3", "putreplicationconfiguration putbucketownershipcontrols"),
    *_of("lambda", "addpermission createfunctionurlconfig updatefunctionurlconfig"),
    *_of("ec2", "modifysnapshotattribute modifyimageattribute getpassworddata"),
    *_of("ssm", "getparameter getparameters getparametersbypath getparameterhistory"),
    *_of("eks", "updateclusterconfig associateidentityproviderconfig"),
    *_of("sqs", "setqueueattributes"),
    *_of("sns", "settopicattributes"),
    *_of("es", "updatedomainconfig"),
    *_of("cognito-identity", "setidentitypoolroles"),
    *_of("cognito-idp", "adminsetuserpassword adminaddusertogroup"),
    *_of("lightsail", "getinstanceaccessdetails downloaddefaultkeypair"),
    *_of("redshift", "getclustercredentials getclustercredentialswithiam"),
    *_of("rds-db", "connect"),
    *_of("rds", "modifydbsnapshotattribute modifydbclustersnapshotattribute"),
)
"""One such action on all resources gives the rights of others, or gives others the data."""

RUNS: tuple[str, ...] = (
    *_of("lambda", "updatefunctioncode updatefunctionconfiguration"),
    *_of("glue", "updatedevendpoint"),
    *_of(
        "ssm",
        "sendcommand startsession resumesession startautomationexecution createassociation updateassociation",
    ),
    *_of("ssm", "updatedocument updatedocumentdefaultversion"),
    *_of("ecr", "putimage"),
    *_of("ecs", "runtask starttask"),
    *_of("batch", "submitjob"),
    *_of("emr-containers", "startjobrun"),
    *_of("fis", "startexperiment"),
    *_of("ec2-instance-connect", "sendsshpublickey sendserialconsolesshpublickey"),
    *_of("ecs", "executecommand"),
    *_of("codebuild", "startbuild startbuildbatch"),
    *_of("cloudformation", "updatestack"),
    *_of("sagemaker", "createpresignednotebookinstanceurl createpresigneddomainurl"),
    *_of("states", "updatestatemachine"),
    *_of("elasticmapreduce", "addjobflowsteps"),
    *_of("datapipeline", "putpipelinedefinition"),
    *_of("bedrock-agentcore", "invokecodeinterpreter"),
    *_of("cloud9", "createenvironmentmembership"),
)
"""One such action on all resources runs code with the role of any of them."""

TOGETHER: tuple[tuple[str, ...], ...] = (
    ("cloudformation:createchangeset", "cloudformation:executechangeset"),
    ("ec2:createlaunchtemplateversion", "ec2:modifylaunchtemplate"),
    ("ec2:modifyinstanceattribute", "ec2:stopinstances", "ec2:startinstances"),
    ("sagemaker:createnotebookinstancelifecycleconfig", "sagemaker:updatenotebookinstance"),
)
"""Actions that together run code with a role that a resource already has."""

TAGS = (
    *(
        "createtags",
        "tagresource",
        "addtags",
        "addtagstoresource",
        "createorupdatetags",
        "tagrole",
        "taguser",
    ),
    *("putbuckettagging", "putobjecttagging", "changetagsforresource"),
)
"""Actions that give tags to what exists, by their names in different services."""

ASSUMES = "sts:assumerole"
PASSES = "iam:passrole"

LAUNCHES: Mapping[str, tuple[str, ...]] = {
    "ec2": (
        *_of(
            "ec2",
            "runinstances requestspotinstances requestspotfleet createfleet associateiaminstanceprofile "
            "replaceiaminstanceprofileassociation",
        ),
        *_of("autoscaling", "createlaunchconfiguration createautoscalinggroup"),
        *_of("iam", "addroletoinstanceprofile"),
    ),
    "lambda": _of("lambda", "createfunction updatefunctionconfiguration"),
    "glue": _of("glue", "createdevendpoint createjob updatejob createsession"),
    "cloudformation": _of(
        "cloudformation", "createstack updatestack createchangeset createstackset updatestackset"
    ),
    "datapipeline": _of("datapipeline", "createpipeline putpipelinedefinition"),
    "sagemaker": _of(
        "sagemaker",
        "createnotebookinstance createtrainingjob createprocessingjob createdomain createuserprofile "
        "createmodel createpipeline createcluster createautomljob createhyperparametertuningjob",
    ),
    "codebuild": _of("codebuild", "createproject updateproject"),
    "codepipeline": _of("codepipeline", "createpipeline updatepipeline"),
    "codedeploy": _of("codedeploy", "createdeploymentgroup updatedeploymentgroup"),
    "ecs-tasks": (*_of("ecs", "registertaskdefinition runtask starttask"), "batch:registerjobdefinition"),
    "batch": _of("batch", "createcomputeenvironment updatecomputeenvironment"),
    "tasks.apprunner": _of("apprunner", "createservice updateservice"),
    "bedrock-agentcore": _of("bedrock-agentcore", "createcodeinterpreter createagentruntime"),
    "states": _of("states", "createstatemachine updatestatemachine"),
    "pods.eks": _of("eks", "createpodidentityassociation updatepodidentityassociation"),
    "elasticmapreduce": _of("elasticmapreduce", "runjobflow"),
    "emr-serverless": _of("emr-serverless", "startjobrun"),
    "imagebuilder": _of("imagebuilder", "createinfrastructureconfiguration"),
    "ssm": _of("ssm", "startautomationexecution createassociation registertaskwithmaintenancewindow"),
    "scheduler": _of("scheduler", "createschedule updateschedule"),
    "events": _of("events", "puttargets"),
    "cloud9": _of("cloud9", "createenvironmentec2"),
    "airflow-env": _of("airflow", "createenvironment updateenvironment"),
    "gamelift": _of("gamelift", "createfleet"),
    "amplify": _of("amplify", "createapp updateapp"),
    "kinesisanalytics": _of("kinesisanalytics", "createapplication updateapplication"),
    "omics": _of("omics", "startrun"),
    "rolesanywhere": _of("rolesanywhere", "createprofile updateprofile"),
}
"""Service to which a role is passed (without `.amazonaws.com`) -> actions that run code with that role."""

DELETES: tuple[str, ...] = (
    *_of(
        "s3",
        "deletebucket deleteobject deleteobjectversion putobject putlifecycleconfiguration "
        "putbucketversioning putencryptionconfiguration",
    ),
    *_of(
        "ec2",
        "terminateinstances stopinstances deletevolume deletesnapshot deregisterimage deletevpc deletesubnet "
        "deleteflowlogs deletelaunchtemplate cancelcapacityreservation deletefleets cancelspotfleetrequests "
        "modifycapacityreservation",
    ),
    *_of(
        "autoscaling",
        "deleteautoscalinggroup terminateinstanceinautoscalinggroup updateautoscalinggroup "
        "setdesiredcapacity",
    ),
    *_of("eks", "deletecluster deletenodegroup deleteaddon deleteaccessentry deletefargateprofile"),
    *_of("fsx", "deletefilesystem deletebackup deletevolume deletesnapshot deletestoragevirtualmachine"),
    *_of("elasticfilesystem", "deletefilesystem deletemounttarget"),
    *_of("kms", "schedulekeydeletion disablekey deleteimportedkeymaterial deletecustomkeystore"),
    *_of("logs", "deleteloggroup deletelogstream putretentionpolicy"),
    *_of("ecr", "putlifecyclepolicy"),
    *_of("cloudtrail", "deletetrail stoplogging updatetrail puteventselectors deleteeventdatastore"),
    *_of("config", "deleteconfigurationrecorder stopconfigurationrecorder deletedeliverychannel"),
    *_of("guardduty", "deletedetector updatedetector"),
    *_of("securityhub", "disablesecurityhub"),
    *_of("access-analyzer", "deleteanalyzer"),
    *_of("cloudwatch", "deletealarms disablealarmactions"),
    *_of("budgets", "modifybudget deletebudgetaction"),
    *_of("backup", "deletebackupvault deleterecoverypoint deletebackupplan"),
    *_of("rds", "deletedbinstance deletedbcluster deletedbsnapshot deletedbclustersnapshot"),
    *_of("dynamodb", "deletetable deletebackup"),
    *_of("redshift", "deletecluster"),
    *_of("elasticache", "deletecachecluster deletereplicationgroup"),
    *_of("ecr", "deleterepository batchdeleteimage"),
    *_of("secretsmanager", "deletesecret"),
    *_of("ssm", "deleteparameter deleteparameters"),
    *_of("lambda", "deletefunction"),
    *_of("cloudformation", "deletestack deletestackset"),
    *_of("iam", "deleterole deleteuser deletepolicy detachrolepolicy deleterolepolicy"),
    *_of("elasticloadbalancing", "deleteloadbalancer"),
    *_of("route53", "deletehostedzone"),
    *_of("sagemaker", "deletedomain deleteapp deleteendpoint deletecluster"),
    *_of("sns", "deletetopic"),
    *_of("sqs", "deletequeue purgequeue"),
    *_of("organizations", "leaveorganization closeaccount deletepolicy detachpolicy"),
    *_of("account", "closeaccount"),
)
"""Actions that delete data, capacity or records, or switch records off."""
