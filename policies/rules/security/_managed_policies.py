"""AWS-managed policies that give the rights of others, by name.

Each document was judged by `_grants.Grants`: it lets a role write policies, pass any role to a service that
runs code, run commands on all instances, or read all secrets. Source: iann0036/iam-dataset,
`aws/managedpolicies`, commit 2073fa52 (August 2026). Left out: policies of service-linked roles, which nobody
can attach, permissions boundaries, and the names that `FAMILIES` covers.
"""

from __future__ import annotations

from gpufleet.policies.rules.security._patterns import matches

FAMILIES = ("*FullAccess*", "*PowerUser*", "*Admin*")
"""Names of policies with all rights on a service, or on all of them."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


POWERFUL = _names(
    "AWSApplicationMigrationEC2Access AWSApplicationMigrationSSMAccess AWSB9InternalServicePolicy "
    "AWSBackupOperatorAccess AWSCloud9EnvironmentMember AWSCloud9User AWSCodeBuildDeveloperAccess "
    "AWSConnector AWSDeepRacerCloudFormationAccessPolicy AWSEC2SqlHaInstancePolicy "
    "AWSEC2VssRestorePolicy AWSElasticDisasterRecoveryLaunchActionsPolicy AWSLambdaReplicatorInternal "
    "AWSManagedAccountUserEntitlementAccess AWSMarketplaceAmiIngestion AWSOpsWorksRegisterCLI "
    "AWSPartnerCentralChannelManagement AWSSecretsManagerClientReadOnlyAccess "
    "AWSSystemsManagerJustInTimeAccessTokenPolicy AWSTransformNetworkMigrationAgentPolicy "
    "AWSTransformServerMigrationAgentPolicy AmazonBedrockMarketplaceAccess AmazonEverestServicePolicy "
    "AmazonRedshiftQueryEditor AmazonSageMakerHyperPodInferenceAccess "
    "AmazonSageMakerPipelinesIntegrations DataScientist EC2InstanceConnect "
    "SageMakerStudioUserIAMDefaultExecutionPolicy SageMakerStudioUserIAMPermissiveExecutionPolicy "
    "SecretsManagerReadWrite"
)
"""Policies for people and programs."""

OF_SERVICES = _names(
    "AWSApplicationMigrationFSxProxyPolicy AWSBackupGuardDutyRolePolicyForScans "
    "AWSBackupServiceRolePolicyForBackup AWSBackupServiceRolePolicyForRestores AWSBatchServiceRole "
    "AWSCodeStarServiceRole AWSDataLifecycleManagerServiceRole AWSDataPipelineRole "
    "AWSElasticBeanstalkCustomPlatformforEC2Role AWSElasticBeanstalkManagedUpdatesCustomerRolePolicy "
    "AWSElasticBeanstalkService AWSElasticDisasterRecoveryEc2InstancePolicy "
    "AWSElasticDisasterRecoveryRecoveryInstancePolicy AWSElasticDisasterRecoveryStagingAccountPolicy "
    "AWSElasticDisasterRecoveryStagingAccountPolicy_v2 AWSFaultInjectionSimulatorEC2Access "
    "AWSFaultInjectionSimulatorECSAccess AWSFaultInjectionSimulatorSSMAccess AWSGlueServiceNotebookRole "
    "AWSGlueServiceRole AWSGreengrassResourceAccessRolePolicy AWSOpsWorksCMServiceRole AWSOpsWorksRole "
    "AmazonDMSRedshiftS3Role AmazonEC2ContainerServiceEventsRole AmazonEC2RolePolicyForLaunchWizard "
    "AmazonEC2RoleforDataPipelineRole AmazonEC2SpotFleetRole AmazonEC2SpotFleetTaggingRole "
    "AmazonECSInfrastructureRolePolicyForManagedInstances AmazonEKSComputePolicy "
    "AmazonElasticMapReduceRole AmazonElasticMapReduceforEC2Role AmazonGrafanaRedshiftAccess "
    "AmazonLambdaRolePolicyForLaunchWizardSAP AmazonMachineLearningRoleforRedshiftDataSource "
    "AmazonMacieSetupRole AmazonSSMAutomationRole AmazonSSMMaintenanceWindowRole "
    "AmazonSageMakerEdgeDeviceFleetPolicy AwsGlueSessionUserRestrictedNotebookServiceRole "
    "AwsGlueSessionUserRestrictedServiceRole BedrockAgentCoreRuntimeInstancesOperatorRolePolicy "
    "EC2ImageBuilderExecutionPolicy ROSAInstallerPolicy ROSAKarpenterControllerPolicy "
    "ROSANodePoolManagementPolicy SageMakerStudioEMRContainersSystemNamespaceRolePolicy "
    "SageMakerStudioEMRInstanceRolePolicy SageMakerStudioProjectProvisioningRolePolicy "
    "SageMakerStudioProjectUserRolePolicy ServerMigrationServiceLaunchRole ServerMigrationServiceRole "
    "ServerMigration_ServiceRole VMImportExportRoleForAWSConnector"
)
"""Policies for roles that a service of AWS assumes: too much for a role of nodes or pods."""


def name_of(arn: str) -> str:
    """Return the name of a policy in lower case, without its path."""
    return arn.strip().rpartition("/")[2].lower()


def gives_rights_of_others(arn: str) -> bool:
    """Return whether an AWS-managed policy is powerful by its name."""
    name = name_of(arn)
    return any(matches(each.lower(), name) for each in FAMILIES) or name in _POWERFUL


_POWERFUL = frozenset(each.lower() for each in POWERFUL)
