"""Third parties that judge the resources of our program."""
