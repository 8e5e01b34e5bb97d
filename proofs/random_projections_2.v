(* Page 6: Random projections of attention (Propositions 6.16, 6.11, 6.17) *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Proposition 6.11 *)
Module Existence.
(* existence *)
(* Proposition 6.11 (Existence), last sentence: P V V^+ has rank at most d and maps the columns of
   V to those of P V (mathcomp: pinvmx). *)
Theorem existence_columns (F : fieldType) n d (P : 'M[F]_n) (V : 'M[F]_(n, d)) :
  exists2 Q : 'M_n, (\rank Q <= d)%N & Q *m V = P *m V.
Proof.
exists (P *m V *m pinvmx V).
  by apply: leq_trans (mxrankM_maxl _ _) _; rewrite rank_leq_col.
by rewrite -[V in RHS](mulmxKpV (submx_refl V)) !mulmxA.
Qed.
(* Proposition 6.11, first sentence: one w, rank at most one. *)
Theorem existence_one (F : fieldType) n (P : 'M[F]_n) (w : 'cV[F]_n) :
  exists2 Q : 'M_n, (\rank Q <= 1)%N & Q *m w = P *m w.
Proof. exact: existence_columns. Qed.
(* Proposition 6.11, second sentence: if P w is not 0, every rank r from 1 to n. Choose bases that
   begin with w and with P w; a partial identity between them. *)
Theorem existence_rank (F : fieldType) n r (P : 'M[F]_n) (w : 'cV[F]_n) :
  P *m w != 0 -> (0 < r <= n)%N -> exists2 Q : 'M_n, \rank Q = r & Q *m w = P *m w.
Proof.
move=> Pw0 /andP[r0 rn]; set u := P *m w in Pw0 *.
have w0 : w != 0 by apply: contraNneq Pw0; rewrite /u => ->; rewrite mulmx0.
have r1 (x : 'cV[F]_n) : x != 0 -> \rank x = 1%N.
  by move=> x0; apply/eqP; rewrite eqn_leq rank_leq_col lt0n mxrank_eq0.
pose e : 'cV[F]_n := pid_mx 1.
have col (x : 'cV[F]_n) : x != 0 -> exists2 A : 'M[F]_n, A \in unitmx & A *m e = x.
  move=> x0; exists (row_ebase x 0 0 *: col_ebase x).
    rewrite unitmxZ ?col_ebase_unit // unitfE; apply: contraTneq (row_ebase_unit x).
    by move=> z; rewrite [row_ebase x]mx11_scalar z unitmxE det_scalar1 unitr0.
  rewrite -[RHS]mulmx_ebase (r1 x x0) [row_ebase x]mx11_scalar mul_mx_scalar.
  by rewrite -scalemxAl mxE eqxx mulr1n.
have [A Au Ae] := col w w0; have [B Bu Be] := col u Pw0.
exists (B *m pid_mx r *m invmx A).
  rewrite mxrankMfree ?row_free_unit ?unitmx_inv //.
  by rewrite -(mxrank_tr (B *m _)) trmx_mul mxrankMfree ?row_free_unit ?unitmx_tr // mxrank_tr
    rank_pid_mx.
rewrite -!mulmxA -Ae mulKmx // -Be; congr (_ *m _).
by rewrite /e mul_pid_mx (minn_idPr r0) (minn_idPr (leq_trans r0 rn)).
Qed.

(* Instance: P = I, w = (1, 1), rank 2. *)
Example identity : exists2 Q : 'M[rat]_2, \rank Q = 2%N & Q *m const_mx 1 = 1%:M *m const_mx 1 :>
  'cV_2.
Proof.
apply: existence_rank => //; rewrite mul1mx; apply/eqP => /colP/(_ 0).
by rewrite !mxE => /eqP; rewrite oner_eq0.
Qed.
End Existence.

(* Proposition 6.16 *)
Module CountSketch.
Section CountSketch.
Variables (F : rcfType) (k n : nat).
(* A draw: for each column a row and a sign, all draws equally likely. *)
Definition draw := {ffun 'I_n -> 'I_k * bool}.
Local Notation sgn := (@sgn F).
(* CountSketch: one entry, plus or minus 1, in each column. *)
Definition sketch (o : draw) : 'M[F]_(k, n) := \matrix_(a, i) (sgn (o i).2 * ((o i).1 == a)%:R).
Variables i0 i1 : 'I_n.
Hypotheses i01 : i0 != i1.
(* x is (e_1 + e_2) / sqrt 2. *)
Definition x : 'cV[F]_n := (Num.sqrt 2%:R)^-1 *: (delta_mx i0 0 + delta_mx i1 0).

(* Step 1. The squared norm is 1, plus the product of the two signs if the rows agree. *)
Lemma sketched (o : draw) : sqnorm (sketch o *m x) =
  1 + ((o i0).1 == (o i1).1)%:R * (sgn (o i0).2 * sgn (o i1).2).
Proof.
have s2 s : sgn s ^+ 2 = 1 by case: s; rewrite /sgn ?sqrrN expr1n.
pose h : F := (Num.sqrt 2%:R)^-1.
have h2 : h ^+ 2 = 2%:R^-1 by rewrite exprVn sqr_sqrtr ?ler0n.
have col a : (sketch o *m x) a 0 = h * (sketch o a i0 + sketch o a i1).
  rewrite -scalemxAr mulmxDr -!colE mxE; congr (_ * _); by rewrite !mxE.
pose t : F := sgn (o i0).2; pose u : F := sgn (o i1).2.
rewrite sqnorm_col; transitivity (h ^+ 2 * \sum_a ((t ^+ 2 * ((o i0).1 == a)%:R + u ^+ 2 * ((o i1).1 == a)%:R) +
   (((o i0).1 == a) && ((o i1).1 == a))%:R * (t * u) *+ 2)).
  rewrite mulr_sumr; apply: eq_bigr => a _; rewrite col exprMn; congr (_ * _).
  rewrite !mxE -/t -/u sqrrD; case: (_ == a); case: (_ == a); rewrite /= ?mulr1 ?mulr0 ?mul1r
    ?mul0r ?mul0rn ?addr0 ?expr0n //=; rewrite ?addr0 //.
  by rewrite addrAC.
rewrite /t /u !s2.
have one (b : 'I_k) : \sum_c (1 : F) * (b == c)%:R = 1.
  by rewrite (bigD1 b) //= eqxx mulr1 big1 ?addr0 // => c /negbTE cb; rewrite eq_sym cb mulr0.
rewrite big_split /= big_split /= !one h2 mulrDr mulVf ?pnatr_eq0 //; congr (1 + _).
rewrite sumrMnl -mulr_suml -[(_ * _) *+ 2]mulr_natl mulKf ?pnatr_eq0 //; congr (_ * _).
have [->|ne] := eqVneq (o i0).1 (o i1).1.
  by rewrite -[RHS](one (o i1).1); apply: eq_bigr => a _; rewrite andbb mul1r.
by rewrite big1 // => a _; case: eqP => // <-; rewrite eq_sym (negbTE ne).
Qed.

Theorem kept_or_changed (o : draw) : (o i0).1 != (o i1).1 -> sqnorm (sketch o *m x) = 1.
Proof. by move=> /negbTE ne; rewrite sketched ne mul0r addr0. Qed.
Theorem changed (o : draw) : (o i0).1 = (o i1).1 -> sqnorm (sketch o *m x) = 0 \/ sqnorm (sketch o *m x)
  = 2%:R.
Proof.
move=> eq; rewrite sketched eq eqxx mul1r; case: (o i0).2; case: (o i1).2; rewrite /= ?mulrN
  ?mulr1 ?mulNr ?opprK ?mul1r ?subrr; by [left | right].
Qed.

(* Step 2. One draw in k has both columns in the same row. *)
Lemma count : (0 < k)%N -> (k * #|[set o : draw | (o i0).1 == (o i1).1]|)%N = #|[set: draw]|.
Proof.
move=> k_gt0; pose fam (a : 'I_k) (i : 'I_n) : {pred 'I_k * bool} := if (i == i0) || (i == i1)
  then [pred t | t.1 == a] else predT.
have one (a : 'I_k) : #|[pred t : 'I_k * bool | t.1 == a]| = 2%N.
  rewrite (eq_card (_ : _ =i [predX pred1 a & predT])) => [|[b s]]; last by rewrite !inE /= andbT.
  by rewrite cardX card1 mul1n card_bool.
have cardf (f : 'I_n -> {pred 'I_k * bool}) : #|family f| = (\prod_i #|f i|)%N.
  by rewrite card_family foldrE big_map big_enum.
have famE a : (k * k * #|family (fam a)|)%N = #|[set: draw]|.
  rewrite cardsT card_ffun card_prod !card_ord card_bool cardf (bigD1 i0) //= (bigD1 i1) 1?eq_sym
    //=.
  rewrite /fam !eqxx orbT /= !one (eq_bigr (fun=> k * 2)%N) => [|i /andP[/negbTE -> /negbTE ->]];
    last first.
    by rewrite card_prod card_ord card_bool.
  rewrite -[RHS](_ : \prod_(i < n) (k * 2) = _)%N; last by rewrite prod_nat_const card_ord.
  by rewrite [RHS](bigD1 i0) //= [in RHS](bigD1 i1) 1?eq_sym //= !mulnA; congr (_ * _)%N; rewrite
    -!mulnA; congr (_ * _)%N; rewrite mulnCA.
have -> : #|[set o : draw | (o i0).1 == (o i1).1]| = (\sum_a #|family (fam a)|)%N.
  rewrite -sum1_card (partition_big (fun o : draw => (o i0).1) predT) //=; apply: eq_bigr => a _.
  rewrite -sum1_card; apply: eq_bigl => o; rewrite inE; apply/andP/familyP => [[/eqP e /eqP oa]
    i|fm].
    by rewrite /fam; case: eqP => [->|_] /=; [rewrite inE oa | case: eqP => // -> ; rewrite inE
      -e oa].
  have := fm i0; have := fm i1; rewrite /fam !eqxx orbT /= !inE => /eqP -> /eqP ->; by rewrite
    eqxx.
rewrite -(famE (Ordinal k_gt0)) (eq_bigr (fun=> #|family (fam (Ordinal k_gt0))|)) => [|a _].
  by rewrite sum_nat_const card_ord mulnA.
have kk : (0 < k * k)%N by rewrite muln_gt0 k_gt0.
by apply/eqP; rewrite -(eqn_pmul2l kk) !famE.
Qed.

(* the chance, uniform over the draws *)
(* Proposition 6.16 (One collision): the chance of a change to 0 or 2 is exactly 1/k, and otherwise
   the norm is kept. *)
Theorem countsketch : (0 < k)%N -> let changed := [set o : draw | (sqnorm (sketch o *m x) == 0) ||
  (sqnorm (sketch o *m x) == 2%:R)] in
  #|changed|%:R / #|[set: draw]|%:R = k%:R^-1 :> F /\ forall o, o \notin changed -> sqnorm (sketch o
    *m x) = 1.
Proof.
move=> k0 ch.
have chE : ch = [set o : draw | (o i0).1 == (o i1).1].
  apply/setP => o; rewrite !inE; have [e|ne] := eqVneq (o i0).1 (o i1).1.
    by case: (changed e) => ->; rewrite eqxx ?orbT.
  rewrite kept_or_changed //.
  by rewrite oner_eq0 -[1 == 2%:R]/(1%:R == 2%:R :> F) eqr_nat.
split=> [|o]; last by rewrite chE inE; apply: kept_or_changed.
have k1 : k%:R != 0 :> F by rewrite pnatr_eq0 -lt0n.
have N0 : #|[set: draw]|%:R != 0 :> F.
  by rewrite pnatr_eq0 cardsT card_ffun card_prod !card_ord card_bool -lt0n expn_gt0 muln_gt0 k0.
by apply: (mulfI k1); rewrite mulrA chE -natrM count // mulfV ?mulfV.
Qed.
Lemma norm_x : sqnorm x = 1.
Proof.
rewrite sqnorm_col (bigD1 i0) //= (bigD1 i1) 1?eq_sym //= big1 => [|a /andP[a0 a1]]; last first.
  by rewrite !mxE (negbTE a0) (negbTE a1) !addr0 mulr0 expr0n.
rewrite !mxE !eqxx (eq_sym i1) (negbTE i01) /= !(addr0, add0r) mulr1 exprVn.
by rewrite sqr_sqrtr ?ler0n // -mulr2n -mulr_natl mulfV ?pnatr_eq0.
Qed.
(* Proposition 6.16, last sentence: it fails where the squared norm changes by more than the share eps;
   the chance of failure is at most delta only if k >= 1 / delta. *)
Theorem collision_cost (eps delta : F) : (0 < k)%N -> 0 < eps < 1 ->
  let failed := [set o : draw | ~~ ((1 - eps) * sqnorm x <= sqnorm (sketch o *m x) <= (1 + eps) * sqnorm x)] in
  #|failed|%:R / #|[set: draw]|%:R <= delta -> delta^-1 <= k%:R.
Proof.
move=> k0 /andP[eps0 eps1] failed.
have [chance keeps] := countsketch k0.
set ch := [set o | _] in chance keeps.
have -> : failed = ch.
  apply/setP => o; rewrite [LHS]inE norm_x !mulr1; have [|/keeps ->] := boolP (o \in ch); last first.
    by rewrite ler_subl_addr ler_addl (ltW eps0) andbT.
  rewrite {1}/ch inE => /orP[]/eqP ->.
    by rewrite subr_le0 leNgt eps1.
  have far : (2%:R <= 1 + eps) = false by rewrite -[2%:R]/(1 + 1) ler_add2l leNgt eps1.
  by rewrite far andbF.
have k1 : 0 < k%:R :> F by rewrite ltr0n.
rewrite chance => kd; rewrite -[k%:R]invrK lef_pinv ?posrE ?invr_gt0 //.
by apply: lt_le_trans kd; rewrite invr_gt0.
Qed.
End CountSketch.

(* Instance: n = 2, k = 3. *)
Example three_rows (F : rcfType) := @countsketch F 3 2 0 1 isT isT.
End CountSketch.

(* Proposition 6.17 *)
Module Normaliser.
(* Proposition 6.17 *)
Section Normaliser.
Variables (F : realFieldType) (ex : F -> F).
Hypotheses (ex_gt0 : forall x, 0 < ex x) (ex0 : ex 0 = 1) (exD : forall x y, ex (x + y) = ex x *
  ex y).
(* Softmax is with any positive function ex (the exponential); c stands for sqrt(d_qk). *)
(* The row sums. *)
Definition Dsum m n (A : 'M[F]_(m, n)) : 'rV[F]_m := \row_i \sum_l ex (A i l).
(* Proposition 6.17 (The normaliser), first sentence: D is invertible, and softmax(A/c) = D^-1
   exp(A/c). *)
Theorem normaliser m n (A : 'M[F]_(m, n.+1)) (c : F) :
  diag_mx (Dsum (c^-1 *: A)) \in unitmx /\
  softmax_rows ex (c^-1 *: A) = invmx (diag_mx (Dsum (c^-1 *: A))) *m map_mx ex (c^-1 *: A).
Proof.
set B := c^-1 *: A; have s0 i : \sum_l ex (B i l) != 0.
  rewrite big_ord_recl lt0r_neq0 // ltr_paddr ?ex_gt0 // sumr_ge0 // => l _; exact: ltW.
have u : diag_mx (Dsum B) \in unitmx.
  by rewrite unitmxE det_diag unitfE; apply/prodf_neq0 => i _; rewrite mxE.
split=> //; rewrite -[LHS](mulKmx u); congr (_ *m _); rewrite mul_diag_mx.
by apply/matrixP => i j; rewrite mxE softmax_rowsE !mxE mulrC divfK.
Qed.
Variable l2 : F.
Hypotheses exl2 : ex l2 = 2%:R.
Let i0 : 'I_2 := ord0.
Let i1 : 'I_2 := ord_max.
Definition A : 'M[F]_2 := \matrix_(i, j) (((i == i0) && (j == i1))%:R * (l2 *+ 2)).
(* The example: d_qk = 4, so c = 2, and A = ln 2 (0 2; 0 0), with ex l2 = 2. *)
Lemma values : [/\ ex ((2%:R^-1 *: A) i0 i1) = 2%:R, ex ((2%:R *: A) i0 i1) = 16%:R &
  forall c i j, (i, j) != (i0, i1) -> ex ((c *: A) i j) = 1].
Proof.
split; first by rewrite !mxE !eqxx mul1r -[l2 *+ 2]mulr_natl mulKf ?pnatr_eq0.
  have -> : (2%:R *: A) i0 i1 = l2 + l2 + (l2 + l2) by rewrite !mxE !eqxx mul1r mulr_natl !mulr2n.
  by rewrite !exD exl2 -!natrM; congr (_%:R).
by move=> c i j; rewrite xpair_eqE => /negbTE ij; rewrite !mxE ij mul0r mulr0.
Qed.
(* Proposition 6.17, second sentence (the slip): no diagonal on the right will do, and with exp(2
   A) none on either side. *)
Theorem no_right (t : 'rV[F]_2) : softmax_rows ex (2%:R^-1 *: A) <> map_mx ex (2%:R^-1 *: A) *m diag_mx t
   /\ softmax_rows ex (2%:R^-1 *: A) <> map_mx ex (2%:R *: A) *m diag_mx t
   /\ softmax_rows ex (2%:R^-1 *: A) <> diag_mx t *m map_mx ex (2%:R *: A).
Proof.
have [v1 v2 v3] := values.
have sum2 (f : 'I_2 -> F) : \sum_l f l = f i0 + f i1.
  by rewrite big_ord_recl big_ord1; congr (f _ + f _); exact: val_inj.
have sm0 : softmax_rows ex (2%:R^-1 *: A) i0 i0 = 3%:R^-1.
  by rewrite softmax_rowsE sum2 v3 // v1 mul1r -(natrD _ 1 2).
have sm1 : softmax_rows ex (2%:R^-1 *: A) i1 i0 = 2%:R^-1.
  by rewrite softmax_rowsE sum2 !v3 // mul1r -(natrD _ 1 1).
have sm2 : softmax_rows ex (2%:R^-1 *: A) i0 i1 = 2%:R / 3%:R.
  by rewrite softmax_rowsE sum2 v1 v3 // -(natrD _ 1 2).
have ne (a b : nat) : a != b -> a%:R = b%:R :> F -> False by move=> ab /eqP; rewrite eqr_nat
  (negbTE ab).
have right c : softmax_rows ex (2%:R^-1 *: A) <> map_mx ex (c *: A) *m diag_mx t.
  rewrite mul_mx_diag => /matrixP e; have e1 := e i1 i0; have e0 := e i0 i0; move: e1 e0.
  rewrite sm0 sm1 !mxE => e1 e0; have : 3%:R^-1 = 2%:R^-1 :> F.
    by rewrite e0 e1 /= !mul0r !mulr0.
  by move/invr_inj; apply: ne.
split; [exact: right | split; [exact: right |]].
have m c a b : (diag_mx t *m map_mx ex (c *: A)) a b = t 0 a * ex ((c *: A) a b).
  by rewrite mul_diag_mx mxE [X in _ * X]mxE.
move/matrixP => e; have := e i0 i0; have := e i0 i1; clear e.
rewrite sm0 sm2 !m v2 v3 // mulr1 => e1 e2; move: e1; rewrite -e2 [_ / _]mulrC.
have t0 : 3%:R^-1 != 0 :> F by rewrite invr_eq0 pnatr_eq0.
by move/(mulfI t0); apply: ne.
Qed.
End Normaliser.
End Normaliser.
