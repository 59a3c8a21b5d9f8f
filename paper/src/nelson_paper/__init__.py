"""The paper that nelson reproduces: its three tasks, its tables and figures, its authors' protocol.

nelson_paper.tasks         K-SAT with preferences, sink-free orientations, delivery routes
nelson_paper.experiments   tables 1 to 3, the figures, the report page: `nelson bench`
nelson_paper.commands      `nelson bench` and `nelson demo`
"""
