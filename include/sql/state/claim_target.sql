INSERT INTO sluice.targets (target, pipeline, lake, lease)
SELECT {target:String}, {pipeline:String}, {lake:String}, {lease:String}
