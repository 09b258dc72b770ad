"""The way into a private EKS endpoint: tokens, and port-forwards of Session Manager through a node.

A kubeconfig runs `gpufleet eks-token` before its first request (a credential plugin of client-go). So one way
in serves whatever uses the kubeconfig: a run, its deletions after the program has ended, `refresh` and
`destroy`, which run no program, and kubectl.
"""
