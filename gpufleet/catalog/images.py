"""The images of nodes, by the types under which EKS has them."""

EKS_IMAGE = "AL2023_x86_64_STANDARD"
EKS_GPU_IMAGE = "AL2023_x86_64_NVIDIA"
"""AMI types of EKS: Amazon Linux 2023, and the same with NVIDIA's driver (EKS API reference, Nodegroup)."""
