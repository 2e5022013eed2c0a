/* What a parameter is for. Templates find their weights by role; families give roles their names. */
#ifndef MT_MODEL_ROLE_H
#define MT_MODEL_ROLE_H

/* In this order the parameters of a group lie in its slab: weights that read the same input are neighbours,
 * so that one product serves them all. A checkpoint has them apart (Q, K, V; GATE, UP) or as one matrix (QKV,
 * GATE_UP), never both. Some families store QKV, O, UP and DOWN the other way: [in, out]. */
enum mt_role {
    MT_ROLE_EMBEDDING, /* [vocab_size, embedding_size] */

    MT_ROLE_LAYER_EMBEDDING, /* [vocab_size, num_layers * layer_input_size]: what each layer reads beside */

    /* Between the embedding and the first layer, and in that layer's slab. */
    MT_ROLE_LAYER_INPUTS,      /* [num_layers * layer_input_size, hidden_size] */
    MT_ROLE_LAYER_INPUTS_NORM, /* [layer_input_size] */
    MT_ROLE_PROJECT_IN,        /* [hidden_size, embedding_size] */
    MT_ROLE_POSITIONS,         /* [max_position_embeddings + position_offset, hidden_size] */
    MT_ROLE_EMBEDDING_NORM,    /* [hidden_size] */
    MT_ROLE_EMBEDDING_NORM_BIAS,

    MT_ROLE_ATTENTION_NORM, /* [hidden_size] */
    MT_ROLE_ATTENTION_NORM_BIAS,
    MT_ROLE_Q, /* [num_heads * head_dim, hidden_size] */
    MT_ROLE_K, /* [num_kv_heads * head_dim, hidden_size] */
    MT_ROLE_V,
    MT_ROLE_QKV, /* [(num_heads + 2 * num_kv_heads) * head_dim, hidden_size] */
    MT_ROLE_Q_BIAS,
    MT_ROLE_K_BIAS,
    MT_ROLE_V_BIAS,
    MT_ROLE_QKV_BIAS,
    MT_ROLE_Q_NORM, /* [head_dim], [num_heads, head_dim] or [num_heads * head_dim], by mt_layer.qk_norm */
    MT_ROLE_K_NORM,
    MT_ROLE_Q_NORM_BIAS,
    MT_ROLE_K_NORM_BIAS,
    MT_ROLE_ATTENTION_SUB_NORM, /* [num_heads * head_dim]: of what O reads */
    MT_ROLE_O,                  /* [hidden_size, num_heads * head_dim] */
    MT_ROLE_O_BIAS,
    MT_ROLE_POST_ATTENTION_NORM, /* [hidden_size] */
    MT_ROLE_POST_ATTENTION_NORM_BIAS,
    MT_ROLE_MLP_NORM, /* [hidden_size] */
    MT_ROLE_MLP_NORM_BIAS,
    MT_ROLE_GATE, /* [intermediate_size, hidden_size] */
    MT_ROLE_UP,
    MT_ROLE_GATE_UP, /* [2 * intermediate_size, hidden_size] */
    MT_ROLE_GATE_BIAS,
    MT_ROLE_UP_BIAS,
    MT_ROLE_XIELU_ALPHA_P, /* [1] */
    MT_ROLE_XIELU_ALPHA_N,
    MT_ROLE_XIELU_BETA,   /* one number; not trained */
    MT_ROLE_XIELU_EPS,    /* one number; not trained */
    MT_ROLE_MLP_SUB_NORM, /* [intermediate_size]: of what DOWN reads */
    MT_ROLE_DOWN,         /* [hidden_size, intermediate_size] */
    MT_ROLE_DOWN_BIAS,
    MT_ROLE_POST_MLP_NORM, /* [hidden_size] */
    MT_ROLE_POST_MLP_NORM_BIAS,
    MT_ROLE_SIDE_GATE,    /* [layer_input_size, hidden_size] */
    MT_ROLE_SIDE_UP,      /* [hidden_size, layer_input_size] */
    MT_ROLE_SIDE_NORM,    /* [hidden_size] */
    MT_ROLE_LAYER_SCALAR, /* [1]: on the layer's output; not trained */

    MT_ROLE_FINAL_NORM, /* [hidden_size] */
    MT_ROLE_FINAL_NORM_BIAS,
    MT_ROLE_PROJECT_OUT, /* [embedding_size, hidden_size] */
    MT_ROLE_HEAD_BIAS,   /* [vocab_size] */
    MT_ROLE_HEAD,        /* [vocab_size, embedding_size]; absent when tied */

    MT_NUM_ROLES
};

#endif
