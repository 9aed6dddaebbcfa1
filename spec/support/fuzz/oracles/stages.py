STAGES = {}
