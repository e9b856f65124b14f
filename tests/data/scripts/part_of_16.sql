SET chosen_16=4;
SELECT 'in the file';
